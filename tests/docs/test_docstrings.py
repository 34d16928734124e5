"""Every public name says what it takes, and shows by an example what it does.

That the examples are true is tested where all doctests run.
"""

import inspect
import re

import pytest

import taxpr
import taxpr_jupyter

PACKAGES = (
    taxpr,
    taxpr_jupyter,
    taxpr.errors,
    taxpr.injectors,
    taxpr.introspect,
    taxpr.program,
    taxpr.questions,
)
CLASSES = (
    taxpr.Program,
    taxpr.program.Injected,
    taxpr.program.Site,
    taxpr.injectors.Injector,
    taxpr.TypedClosedJaxpr,
    taxpr_jupyter.Session,
    taxpr_jupyter.Drawing,
    taxpr_jupyter.Comparison,
)
# IPython calls these; that %load_ext works is tested with a shell.
NOT_CALLED_BY_PEOPLE = {"load_ipython_extension", "unload_ipython_extension"}


def is_error(obj):
    return inspect.isclass(obj) and issubclass(obj, (Exception, Warning))


def is_public(obj):
    return any(obj in vars(package).values() for package in PACKAGES)


def public_names():
    # Once, also where two modules have it. Parts of a rule, and of what a library registers, are
    # explained by pages.
    shown = {"Hop": pytest.param(taxpr.hops.Hop, id="Hop")}
    for package in PACKAGES:
        for name in package.__all__:
            shown.setdefault(name, pytest.param(getattr(package, name), id=name))
    return shown.values()


def public_methods():
    for cls in CLASSES:
        for name in dir(cls):
            method = inspect.getattr_static(cls, name)
            if name.startswith("_") or not hasattr(method, "__get__"):
                continue  # a field with a default
            fn = getattr(method, "fget", None) or getattr(method, "func", None)
            fn = fn or getattr(method, "__func__", method)
            yield pytest.param(fn, id=f"{cls.__name__}.{name}")


def sections(obj):
    doc = inspect.getdoc(obj)
    parts = re.split(r"^(\w+):$", doc, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def undocumented(fn, section):
    names = [name for name in inspect.signature(fn).parameters if name not in ("self", "cls")]
    return [name for name in names if not re.search(rf"^ +\*{{0,2}}{name}: \S", section, re.M)]


@pytest.mark.parametrize("obj", list(public_names()))
def test_public_names_have_an_example(obj):
    assert obj.__doc__
    assert not inspect.isclass(obj) or "__doc__" in vars(obj), "it is that of a base class"
    if is_error(obj) or getattr(obj, "__name__", "") in NOT_CALLED_BY_PEOPLE:
        return
    example = sections(obj).get("Example", "")
    assert re.search(r"^ +>>> ", example, re.M)
    if not inspect.isclass(obj):
        assert obj.__name__ in example
    # Something is compared.
    assert re.search(r"^ +(?!>>>|\.\.\.)\S", example, re.M)


@pytest.mark.parametrize("obj", list(public_names()))
def test_public_functions_say_what_their_arguments_are(obj):
    if inspect.isfunction(obj):
        assert undocumented(obj, sections(obj).get("Args", "")) == []


@pytest.mark.parametrize("obj", list(public_names()))
def test_public_classes_say_what_their_attributes_are(obj):
    if inspect.isclass(obj) and not is_error(obj):
        found = sections(obj)
        assert "Attributes" in found
        own = [obj, *(base for base in obj.__bases__ if base.__module__.startswith("taxpr"))]
        own = [cls for cls in own if cls is obj or not is_public(cls)]
        fields = [n for cls in own for n in getattr(cls, "__annotations__", {}) if n[0] != "_"]
        # Those that a class has for its own use have no line.
        private = {"place", "layouts"}
        lines = found["Attributes"]
        assert [n for n in fields if n not in private and f" {n}: " not in lines] == []


@pytest.mark.parametrize("fn", list(public_methods()))
def test_public_methods_say_what_their_arguments_are(fn):
    assert inspect.getdoc(fn), "no docstring"
    assert undocumented(fn, sections(fn).get("Args", "")) == []


@pytest.mark.parametrize("kind", list(taxpr.ready_injectors().values()), ids=lambda kind: kind.name)
def test_ready_injectors_say_what_their_parameters_are(kind):
    assert kind.doc
    assert all(param.help for param in kind.params.values())
