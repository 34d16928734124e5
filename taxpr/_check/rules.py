"""The table of rules of `check`: one entry each."""

from taxpr._check.findings import Rule
from taxpr._check.hidden_nan import unsafe_where
from taxpr._check.repeated import computed_twice, unrolled_loop
from taxpr._check.roots import unsafe_root
from taxpr._check.types import promotion
from taxpr._check.unused import callback_in_loop, donation, large_constant, unused
from taxpr._check.weak import weak_types

_EVERY = (
    Rule(
        "promotion",
        "A float is promoted to a wider dtype and stays wide: bfloat16 becomes float32 beside a "
        "NumPy scalar or a weight that was not cast.",
        "Cast the wider one, or say by .astype that this is meant.",
        promotion,
    ),
    Rule(
        "weak-type",
        "A value is a Python scalar in one call and an array in another, so JAX compiles twice.",
        "Give an array with a dtype from the start: jnp.float32(0.0).",
        weak_types,
    ),
    Rule(
        "large-constant",
        "The function closes over an array of 1 MiB or more, which becomes part of the compiled "
        "program.",
        "Give it as an argument.",
        large_constant,
    ),
    Rule(
        "unused",
        "Nothing uses an argument or the result of a statement.",
        "Use it, or leave it out; a name that begins with _ says that it is meant.",
        unused,
    ),
    Rule(
        "twice",
        "The same costly value is computed more than once: a matmul, a loop, a sort, random "
        "numbers of one key.",
        "Compute it once and keep it; jax.value_and_grad gives a loss and its gradient at once.",
        computed_twice,
    ),
    Rule(
        "donation",
        "An argument is donated, but no result has its shape and dtype to reuse the memory.",
        "Do not donate it, or return a result of its shape and type.",
        donation,
    ),
    Rule(
        "callback-in-loop",
        "A callback, such as jax.debug.print, runs in each iteration of a loop.",
        "Return the values as results of the loop, or put it under jax.lax.cond.",
        callback_in_loop,
    ),
    Rule(
        "where-gradient",
        "jnp.where hides a value that is not finite but not its derivative, so the gradient is "
        "NaN.",
        "Choose the operand, too: jnp.sqrt(jnp.where(x > 0, x, 1.0)) instead of jnp.sqrt(x).",
        unsafe_where,
    ),
    Rule(
        "sqrt-gradient",
        "A differentiated function or a loss takes the root of a sum of squares, such as "
        "jnp.linalg.norm(x): if the sum is 0, the gradient is NaN.",
        "Add a small number below the root: jnp.sqrt(jnp.sum(x**2) + 1e-12).",
        unsafe_root,
    ),
    Rule(
        "unrolled",
        "A Python loop makes the same equations 8 times or more, 64 or more in all: each iteration "
        "is traced and compiled.",
        "Write it as jax.lax.scan or jax.lax.fori_loop, over stacked parameters.",
        unrolled_loop,
    ),
)
RULES = {rule.name: rule for rule in _EVERY}
