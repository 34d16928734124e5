"""The part of a session that keeps recorded values, and the cursor that all views show them at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import taxpr
from taxpr_jupyter._analysis.same_values import same_values
from taxpr_jupyter._edits.expression import checked_expression, evaluated, names_in
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._lines.values import Chip, ValuesAt
from taxpr_jupyter._runs.run_plan import Plan
from taxpr_jupyter._store.store import Store
from taxpr_jupyter._text.short import shortened

NOTHING = "Nothing is recorded of the program as it is: session.watch()"


class Kept(NamedTuple):
    """Recorded values, and the state of the session then."""

    values: ValuesAt
    program: taxpr.Program
    edition: int
    states: Mapping[str, Any]


class Scrubber:
    """Keeps what `watch` recorded last, with the changes of the session and without them.

    A recording becomes `ValuesAt`, with a chip for each value. `at` moves their cursor, and tells
    views ``"recorded"``. The panel sends the chips of `recorded` to the browser, which has one
    slider for each of the two, and draws a chip wherever a value is: so picture, source and
    inspector show one moment.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[bool, Kept] = {}  # by whether the changes took part
        self._shown = True
        # The recording and the example of results, by the expressions.
        # By expression: the example, the recording and the notebook's values; and the part.
        self._results: dict[str, tuple[tuple[int | None, list[Any]], Any]] = {}

    def note(self, recording: taxpr.questions.Recording, plan: Plan, changed: bool) -> None:
        """Keeps a recording.

        Args:
            recording: The recording.
            plan: The run that it is of.
            changed: Whether the changes took part.
        """
        places = None
        if not changed and plan.program is not plan.untouched:
            same = same_values(plan.untouched, plan.program)
            places = {str(old.address): str(new.address) for old, new in same.items()}
        values = ValuesAt(recording, places, changed=changed)
        with self._store.change("recorded", step=None):
            if before := self._kept.get(self._shown):
                values = values.near(before.values)
            self._kept[changed] = Kept(values, plan.program, plan.edition, plan.edits.states)
            self._shown = changed

    @property
    def recorded(self) -> ValuesAt | None:
        """The values that `watch` recorded last, at the cursor; None if the program has changed.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> def f(x):
            ...     y = jnp.cos(x)
            ...     return y * 2
            >>> session = Session(f, (jnp.arange(2.0),))
            >>> recording = session.watch()
            >>> print(session.recorded)
            x  0.5 ± 0.5 (0 … 1)
            y  0.7702 ± 0.23 (0.5403 … 1)
        """
        return self._current(self._shown)

    @property
    def recorded_before(self) -> ValuesAt | None:
        """The values from before the last change of injectors, tags or states.

        None if `recorded` has the values of the program as it is, or its source has changed since.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> def f(x):
            ...     y = jnp.cos(x)
            ...     return y * 2
            >>> session = Session(f, (0.0,))
            >>> recording = session.watch()
            >>> attached = session.attach("0:cos", "scale", factor=3.0)
            >>> session.recorded is None, str(session.recorded_before["y"][0])
            (True, '1')
        """
        kept = self._kept.get(self._shown)
        if kept is None or kept.program is not self._store.program or self.recorded is not None:
            return None
        return kept.values

    def has_recorded(self, injectors: bool, grads: bool = False) -> bool:
        """Whether values of the program as it is are recorded, with its changes or without them.

        Args:
            injectors: As for `watch`.
            grads: Whether cotangents must be there, too.
        """
        values = self._current(injectors)
        return values is not None and (values.with_cotangents or not grads)

    def _current(self, changed: bool) -> ValuesAt | None:
        kept, store = self._kept.get(changed), self._store
        if kept is None or kept.program is not store.program:
            return None
        same = kept.edition == store.edition if changed else kept.states is store.edits.states
        return kept.values if same else None

    def at(
        self,
        iteration: int | None = None,
        example: int | None = None,
        *,
        injectors: bool | None = None,
    ) -> ValuesAt:
        """Moves the cursor that all views of recorded values share.

        Picture, source and inspector then show what each value was in this iteration and for this
        example.

        Args:
            iteration: The iteration of the outermost loops, from 0; None for all together.
            example: The index of the outermost `jax.vmap`, from 0; None for all together.
            injectors: Whether to show the values with the changes of the session, or without;
                None for those that were recorded last.

        Returns:
            The values at this cursor, which print as a table.

        Raises:
            PanelError: Nothing is recorded of the program as it is: call `watch`. Or there is no
                such iteration or example.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> def f(xs):
            ...     def step(total, x):
            ...         square = x * x
            ...         return total + square, None
            ...     return jax.lax.scan(step, 0.0, xs)[0]
            >>> session = Session(jax.vmap(f), (jnp.arange(6.0).reshape(2, 3),))
            >>> recording = session.watch()
            >>> str(session.at(iteration=2)["square"][0])
            '14.5 ± 10.5 (4 … 25)'
            >>> str(session.at(iteration=2, example=0)["square"][0])
            '4'
        """
        changed = self._shown if injectors is None else injectors
        with self._store.change("recorded", step=None):
            values = self._current(changed)
            if values is None:
                raise PanelError(NOTHING)
            moved = values.at(iteration, example)
            self._kept[changed] = self._kept[changed]._replace(values=moved)
            self._shown = changed
        return moved

    @property
    def expressions(self) -> tuple[str, ...]:
        """The expressions that `watch_expression` watches."""
        return self._store.edits.expressions

    def evaluate(self, expression: str) -> Chip:
        """Evaluates an expression over recorded values, at the cursor of `at`.

        It is evaluated for each iteration of the loops and each example by itself, and its chip has
        a curve over the iterations, as a variable's has.

        Args:
            expression: Python over the names of recorded variables, such as
                ``"jnp.abs(h).max()"`` or ``"h - y"``, and of the notebook. A variable that is
                bound several times means the last time; ``layer.h`` is that of a function.

        Raises:
            PanelError: Nothing is recorded of the program as it is; the expression has no recorded
                variable, or names that mean nothing; it cannot be computed.

        Example:
            >>> import jax, jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> def f(xs):
            ...     def step(total, x):
            ...         square = x * x
            ...         return total + square, None
            ...     return jax.lax.scan(step, 0.0, xs)[0]
            >>> session = Session(f, (jnp.arange(3.0),), namespace={"jnp": jnp})
            >>> recording = session.watch()
            >>> print(session.evaluate("jnp.sqrt(square) + x"))
            2 ± 1.63 (0 … 4)
            >>> moved = session.at(iteration=2)
            >>> print(session.evaluate("jnp.sqrt(square) + x"))
            4
        """
        with self._store.mistakes():
            return self._evaluated(expression)

    def _evaluated(self, expression: str) -> Chip:
        values = self.recorded
        if values is None:
            raise PanelError(NOTHING)
        namespace = self._store.namespace
        # What the notebook calls so may be something else by now.
        named = [namespace.get(name) for name in names_in(checked_expression(expression))]
        key, part = self._results.get(expression, (None, None))
        now = [values.recording, *named]
        same = key is not None and key[0] == values.example and len(key[1]) == len(now)
        if key is None or not same or any(a is not b for a, b in zip(key[1], now, strict=True)):
            part = evaluated(expression, values, namespace)
            kept = self._results.items()
            self._results = {text: one for text, one in kept if one[0][1][0] is values.recording}
            self._results[expression] = (values.example, now), part
        return values.chip_of(part, shortened(expression, 60))

    def watched_expressions(self) -> dict[str, Chip | str]:
        """The chips of the watched expressions, or mistakes; empty before a recording."""
        found: dict[str, Chip | str] = {}
        for one in self.expressions if self.recorded else ():
            try:
                found[one] = self._evaluated(one)
            except PanelError as error:
                found[one] = str(error)
        return found

    def watch_expression(self, expression: str) -> None:
        """Shows an expression over recorded values in the panel from now on; see `evaluate`.

        Args:
            expression: The expression.

        Raises:
            PanelError: It is no expression; or values are recorded, and it cannot be computed.
        """
        with self._store.change("expressions", step=f"watch {shortened(expression, 60)}"):
            expression = expression.strip()
            checked_expression(expression)
            if self.recorded is not None:
                self._evaluated(expression)
            self._store.put(expressions=tuple(dict.fromkeys((*self.expressions, expression))))

    def unwatch_expression(self, expression: str) -> None:
        """Ends `watch_expression`.

        Args:
            expression: The expression.

        Raises:
            PanelError: It is not watched.
        """
        with self._store.change("expressions", step=f"no longer {shortened(expression, 60)}"):
            if expression not in self.expressions:
                raise PanelError(f"{expression!r} is not watched")
            rest = tuple(one for one in self.expressions if one != expression)
            self._store.put(expressions=rest)
