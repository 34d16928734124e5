"""The part of a session that asks the questions of taxpr of its call, and records its values."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable
from typing import Any

import taxpr
from taxpr_jupyter._errors import PanelError
from taxpr_jupyter._heat.measured import measured_by
from taxpr_jupyter._lines.source import HOW_NAMES
from taxpr_jupyter._model.questions import Question, question_of
from taxpr_jupyter._runs.gradients import has_cotangents, losses_of, watched_with_cotangents
from taxpr_jupyter._runs.injected_values import held_with_injectors
from taxpr_jupyter._runs.run_plan import Plan
from taxpr_jupyter._session.renderer import Renderer
from taxpr_jupyter._session.runner import Runner
from taxpr_jupyter._session.scrubber import Scrubber
from taxpr_jupyter._store.store import Store
from taxpr_jupyter._store.tracer import Tracer
from taxpr_jupyter._tracing.changed import ignoring


class Asker:
    """Asks questions of the traced call, as it is with the changes of its source."""

    def __init__(
        self,
        store: Store,
        runner: Runner,
        tracer: Tracer,
        renderer: Renderer,
        scrubber: Scrubber,
    ) -> None:
        self._store = store
        self._scrubber = scrubber
        self._runner = runner
        self._tracer = tracer
        self._renderer = renderer

    def watch(
        self,
        device: str | None = None,
        cancel: threading.Event | None = None,
        *,
        injectors: bool = True,
        grads: bool = False,
    ) -> taxpr.questions.Recording:
        """Runs the program, and keeps the values of its variables.

        All views show them, see `at`.

        Args:
            device: One of `devices`; by default where JAX would run it.
            cancel: As for `run`.
            injectors: Whether to run it with the injectors, and the changes of its source. A value
                with one is then what the injector returned.
            grads: Whether to keep the cotangent of each variable, too: the gradient with respect to
                it. If the program takes a derivative inside, as a train step does, these are its
                own; else they are of its first result that is a single float.

        Returns:
            A `taxpr.questions.Recording`.

        Raises:
            PanelError: A run is under way; the program knows no variables, see ``names`` of
                `Session`; an injector cannot work, or the cotangents with it are not known.
            CancelledError: ``cancel`` was set.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> def f(x):
            ...     y = jnp.cos(x)
            ...     return y * 2
            >>> session = Session(f, (0.0,))
            >>> attached = session.attach("0:cos", "scale", factor=3.0)
            >>> session.watch()["y"], session.watch(injectors=False)["y"]
            (y: float32[], 3 … 3, mean 3, y: float32[], 1 … 1, mean 1)
            >>> session.watch(injectors=False, grads=True)["∂ y"]
            ∂ y: float32[], 2 … 2, mean 2
        """
        plans: list[Plan] = []

        def watched(plan: Plan) -> Callable[..., taxpr.questions.Recording]:
            plans.append(plan)
            program = plan.program if injectors else plan.untouched
            _check_names(program)
            fun = self._tracer.fun if injectors else self._tracer.untouched_fun
            if injectors and plan.injected:
                return held_with_injectors(plan, fun if grads else None)
            if grads:
                watching = watched_with_cotangents(program, fun)
            else:
                watching = taxpr.watch(program)
            return watching if injectors else ignoring(watching, plan.numbers)

        recording = self._runner.asked(watched, device, cancel)
        self._scrubber.note(recording, plans[0], injectors)
        return recording

    @property
    def has_cotangents(self) -> bool:
        """Whether ``watch(grads=True)`` finds cotangents: there is something to differentiate."""
        return has_cotangents(self._store.program)

    def ask(
        self,
        question: str,
        device: str | None = None,
        cancel: threading.Event | None = None,
        *,
        of: str = "",
    ) -> taxpr.questions.Answer:
        """Asks one of the questions of the panel.

        Args:
            question: Its name: ``"find_nan"``, ``"flow"``, ``"check"``, or the other side of
                `first_difference`: ``"injectors"``, ``"op by op"``, ``"bfloat16"``.
            device: One of `devices`; by default where JAX would run it.
            cancel: As for `run`.
            of: For ``"flow"`` the result to differentiate; empty for the first one.

        Raises:
            PanelError: There is no such question; it lacks what it needs; a run is under way.
            CancelledError: ``cancel`` was set.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> def f(x):
            ...     y = jnp.log(x)
            ...     return y * 2
            >>> [row.variable for row in Session(f, (jnp.zeros(2),)).ask("find_nan").rows]
            ['y']
        """
        program = self._store.program
        answer = self._asked(question_of(question), device, cancel, of)
        for found in measured_by(answer, program):
            self._renderer.note(found)
        return answer

    def _asked(
        self, one: Question, device: str | None, cancel: threading.Event | None, of: str
    ) -> taxpr.questions.Answer:
        asking = getattr(taxpr, one.function)
        if not one.runs:
            args, kwargs = self._runner.given() if one.compiles else ((), {})
            return asking(self._store.program)(*args, **kwargs)

        def asked(plan: Plan) -> Callable[..., taxpr.questions.Answer]:
            if one.needs in ("variables", "loss"):
                _check_names(plan.program)
            if one.needs == "injectors":
                return self._with_and_without(plan, asking)
            given = self._tracer.fun if one.of_function else plan.program
            return asking(given, *([one.other] if one.other else []), **({"of": of} if of else {}))

        return self._runner.asked(asked, device, cancel)

    def find_nan(
        self, device: str | None = None, cancel: threading.Event | None = None
    ) -> taxpr.questions.NanFound:
        """Finds the first value that is not finite; see `taxpr.find_nan`.

        Args:
            device: One of `devices`; by default where JAX would run it.
            cancel: As for `run`.

        Returns:
            A `taxpr.questions.NanFound`, which is false if all results are finite.

        Raises:
            PanelError: A run is under way.
            CancelledError: ``cancel`` was set.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> def f(x):
            ...     y = jnp.log(x)
            ...     return y * 2
            >>> found = Session(f, (jnp.zeros(2),)).find_nan()
            >>> found.rows[0].variable, found.rows[0].what
            ('y', '-inf')
        """
        found: Any = self.ask("find_nan", device, cancel)
        return found

    def flow(
        self,
        device: str | None = None,
        cancel: threading.Event | None = None,
        *,
        of: str | None = None,
    ) -> taxpr.questions.Flow:
        """How large values are, and the gradients that flow back to them; see `taxpr.flow`.

        Args:
            device: One of `devices`; by default where JAX would run it.
            cancel: As for `run`.
            of: The result to differentiate, one of `losses`; by default the first one.

        Returns:
            A `taxpr.questions.Flow`.

        Raises:
            PanelError: A run is under way; the result is no scalar, nor a tuple that begins with
                one, and ``of`` names none.
            CancelledError: ``cancel`` was set.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> [row] = Session(lambda x: jnp.sum(x**2), (jnp.ones(4),)).flow().rows
            >>> row.norms, row.grads
            (array([2.]), array([4.]))
        """
        found: Any = self.ask("flow", device, cancel, of=of or "")
        return found

    def losses(self) -> list[str]:
        """The results that `flow` can differentiate: the scalars of floats.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> Session(lambda x: {"loss": x.sum(), "x": x}, (jnp.ones(4),)).losses()
            ["out['loss']"]
        """
        return list(losses_of(self._store.program).values())

    def check(self) -> taxpr.questions.Answer:
        """Find suspicious statements, without running the program; see `taxpr.check`.

        Returns:
            An `Answer` with a row for each finding; it is false without findings.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> def root(x):
            ...     y = jnp.where(x > 0, jnp.sqrt(x), 0.0)
            ...     return y
            >>> [row.rule for row in Session(root, (jnp.ones(3),)).check().rows]
            ['where-gradient']
        """
        return self.ask("check")

    def first_difference(
        self,
        b: Any = None,
        device: str | None = None,
        cancel: threading.Event | None = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
    ) -> taxpr.questions.Answer:
        """Finds the first difference from another run; see `taxpr.first_difference`.

        Args:
            b: The other run: None for the program with its injectors; ``"op by op"`` for each
                equation by itself; a dtype such as ``"bfloat16"`` for the function with all floats
                among its arguments cast, and where that hurts most.
            device: One of `devices`; by default where JAX would run it.
            cancel: As for `run`.
            atol: Numbers may differ by ``atol + rtol * abs(b)``; by default by rounding.
            rtol: See ``atol``.

        Returns:
            An `Answer` with a row for each value that differs, the first one first; it is false if
            both agree.

        Raises:
            PanelError: A run is under way; no injector is attached; ``b`` says no way to run
                something.
            CancelledError: ``cancel`` was set.

        Example:
            >>> import jax.numpy as jnp
            >>> from taxpr_jupyter import Session
            >>> def f(x):
            ...     y = jnp.cos(x)
            ...     z = y + 1
            ...     return z * 2
            >>> session = Session(f, (0.0,))
            >>> attached = session.attach("0:cos", "scale", factor=3.0)
            >>> session.first_difference().first.variable
            'y'
        """

        def compared(plan: Plan) -> Callable[..., taxpr.questions.Answer]:
            asking = functools.partial(taxpr.first_difference, atol=atol, rtol=rtol)
            if b is None:
                return self._with_and_without(plan, asking)
            return asking(plan.program if b == "op by op" else self._tracer.fun, b)

        return self._runner.asked(compared, device, cancel)

    def _with_and_without(
        self, plan: Plan, asking: Callable[..., Callable[..., taxpr.questions.Answer]]
    ) -> Callable[..., taxpr.questions.Answer]:
        """A comparison of the untouched program with the program with injectors and changes."""
        if not plan.attached and not plan.rewritten:
            raise PanelError(
                "No injector is attached and no line is changed: there is nothing to compare with"
            )
        injected = self._store.edited.injected()
        injected = dataclasses.replace(injected, name=f"{plan.program.name} with its changes")
        return asking(self._tracer.untouched_fun if plan.rewritten else plan.program, injected)


def _check_names(program: taxpr.Program) -> None:
    if not program.variables():
        raise PanelError(HOW_NAMES)
