"""How the site shows docstrings: an extension of griffe, which reads them; see mkdocs.yml."""

import copy

import griffe

import taxpr


class Docstrings(griffe.Extension):
    """Shows examples as code, ready injectors as they are called, and methods of parts."""

    def on_package(self, *, pkg, loader, **kwargs):
        """A session shows what it has `of` its parts as methods, which they are."""
        if pkg.path != "taxpr_jupyter":
            return
        session = pkg["_session.session.Session"]
        for name, attribute in session.attributes.items():
            call = attribute.value
            if isinstance(call, griffe.ExprCall) and str(call.function) == "of":
                method = copy.copy(loader.modules_collection[call.arguments[1].canonical_path])
                method.parent = session
                session.members[name] = method

    def on_object(self, *, obj, loader, **kwargs):
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")

    def on_function(self, *, func, loader, **kwargs):
        kind = getattr(taxpr, func.name, None)
        if not isinstance(kind, taxpr.InjectorKind) or kind.__module__ != func.parent.path:
            return
        shown = kind.__signature__.parameters.values()
        func.parameters = griffe.Parameters(
            *(
                griffe.Parameter(
                    parameter.name,
                    kind=griffe.ParameterKind.positional_or_keyword,
                    default=None if parameter.default is parameter.empty else _text(parameter),
                )
                for parameter in shown
            )
        )
        func.returns = None
        # The options that are no parameters are in the text.
        lines = [f"    {name}: {param.help}" for name, param in kind.params.items()]
        if lines:
            text, mark, examples = func.docstring.value.partition("\nExample")
            func.docstring.value = "\n".join([text, "Args:", *lines, mark + examples])


def _text(parameter):
    default = parameter.default
    return default.__name__ if isinstance(default, type) else repr(default)
