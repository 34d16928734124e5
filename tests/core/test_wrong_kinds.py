"""Mistakes in each public function: what was given, what is expected, in words of taxpr's own.

A row is an expression, and what its error says.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import taxpr
from taxpr import tag

X = jnp.ones(3)
KEY = jax.random.key(0)


def f(x):
    h = tag(jnp.sin(x), name="h")
    y = h * x
    return y.sum()


def ctxfn(ctx, token, params):
    return token, ctx


def each(x):
    yield x


async def later(x):
    return x


class Own:
    def __init__(self, x):
        self.x = x


JITTED = jax.jit(f)
P = taxpr.trace(f, names=True)(X)
JX = jax.make_jaxpr(f)(X)
EQ = P.eqns[0]
REC = taxpr.watch(f)(X)
USE = taxpr.memory(f)(X)
MADE = taxpr.compiled(f)(X)
TIMES = taxpr.profile(f, runs=1)(X)
TYPE = jax.ShapeDtypeStruct((3,), jnp.float32)
I = P.inject(taxpr.scale(2.0))  # noqa: E741

ROWS = [
    # trace
    ("taxpr.trace(3)", "trace: 3 is an int, not a function."),
    ("taxpr.trace(None)", "trace: None is a NoneType, not a function."),
    ('taxpr.trace("f")', "trace: 'f' is a str, not a function."),
    ("taxpr.trace(JITTED.trace(X))", "trace: given is a jax.stages.Traced and not a function."),
    ("taxpr.memory(JITTED.lower(X))", "memory: given is a jax.stages.Lowered and not a function."),
    (
        "taxpr.why_compiled(JITTED.lower(X).compile())",
        "why_compiled: given is a jax.stages.Compiled and not a function. Give the function that",
    ),
    ("taxpr.memory(Own)(X)", "memory: Own is a class: its object is no array. Give an object"),
    ("taxpr.profile(each)", "profile: each returns a generator and no arrays. Give a function"),
    ("taxpr.check_grad(later)", "check_grad: later returns a coroutine and no arrays. Give a"),
    ("taxpr.trace(X)", "trace: Array([1., 1., 1.], dtype=float32) is a"),
    ('taxpr.trace(f, names="x")(X)', "trace: names='x': there is no module x"),
    ("taxpr.trace(f, names=3)(X)", "trace: names=3: give True, False, None, "),
    ("taxpr.trace(f, static_argnums=7)(X)", "static_argnums=7: there is no such argument. It"),
    ('taxpr.trace(f, static_argnums="a")(X)', "static_argnums='a' are no numbers of arguments."),
    ("taxpr.trace(f, static_argnums=-3)(X)", "static_argnums=-3: there is no such argument."),
    ("taxpr.trace(f, static_argnums=1.5)(X)", "static_argnums=1.5 are no numbers of arguments."),
    ('taxpr.trace(f, static_argnames="q")(X)', "static_argnames='q': there is no such argument."),
    ("taxpr.trace(f, static_argnames=3)(X)", "static_argnames=3 are no names of arguments."),
    ("taxpr.trace(f)(X, X)", "trace(f): f(x) was called with other arguments:"),
    ("taxpr.trace(f)()", "trace(f): f(x) was called with other arguments:"),
    ("taxpr.trace(f)(y=X)", "trace(f): f(x) was called with other arguments:"),
    ('P("a")', "f: the argument x is a str, which is no array."),
    ("P(None)", "f: it was traced with other arguments: the call"),
    ("P()", "f: missing a required argument: 'x'. It was"),
    ("P(X, X)", "f: too many positional arguments. It was traced"),
    ("P(jnp.ones(4))", "f was traced with x: float32[3] and was called"),
    ("P(y=X)", "f: missing a required argument: 'x'. It was"),
    # tags
    ('P.tags("hh")', "where='hh' does not match the only tag. Nearest:"),
    ("P.tags(3)", "where=3 is an int. A selector is a name, a glob,"),
    ("P.tags([])", "where=[] is empty and selects nothing."),
    ("P.tags({})", "where={} is empty and selects nothing."),
    ("P.tags(X)", "where is an array, float32[3]. A selector is a name,"),
    ("P.tags(True)", "where=True is a bool. A selector is a name, a"),
    ('P.tags({"name": []})', "where={'name': []}: 'name' is a list, which is"),
    ("P.tag_at(None)", "tag_at: say which values. A predicate that is"),
    ('P.tag_at("nothing")', "'nothing': there is no equation 'nothing' in"),
    ("P.tag_at(3)", "where=3 is an int. A selector is a name, a glob,"),
    ("P.tag_at([])", "where=[] is empty and selects nothing."),
    ('P.tag_at("0:sin", name=[])', "tag: the param name=[] is a list, which is not"),
    ('P.tag_at("0:sin.7")', "'0:sin.7': sin"),
    ('P.tag_at("0:sin.-1")', "'0:sin.-1': '-1' is no number of a result."),
    ('P.dissolve("q")', "where='q' does not match the only tag. There"),
    ("P.dissolve(3)", "where=3 is an int. A selector is a name, a glob,"),
    ("P.var_of(3)", "var_of: 3 is an int, not the address of a value."),
    ("P.source(3)", "source: notes: 3 is an int, not a function."),
    ('taxpr.tag_at(3, "a")', "tag_at: 3 is an int, not a Program or a jaxpr. "),
    ('taxpr.tag_at(f, "a")', "is a function, not a Program or a jaxpr. Trace"),
    ('taxpr.tag_at(None, "a")', "tag_at: None is a NoneType, not a Program or a"),
    ("taxpr.find_tags(3)", "find_tags: 3 is an int, not a Program or a"),
    ("taxpr.find_tags(f)", "is a function, not a Program or a jaxpr. Trace"),
    ("taxpr.find_tags(P, 3)", "where=3 is an int. A selector is a name, a glob,"),
    ("taxpr.find_tags(None)", "find_tags: None is a NoneType, not a Program or"),
    ("taxpr.find_values(3)", "find_values: 3 is an int, not a Program or a"),
    ("taxpr.find_values(P, 3)", "where=3 is an int. A selector is a name, a glob,"),
    ('taxpr.find_values(P, "q")', "'q': there is no equation 'q' in the program;"),
    ('taxpr.find_values(f, "q")', "is a function, not a Program or a jaxpr. Trace"),
    ("taxpr.find_values(P, [])", "where=[] is empty and selects nothing."),
    # tag
    ('tag("a")', "tag: the token is a str, which is no array. A"),
    ("tag(X, name=[1])", "tag: the param name=[1] is a list, which is not"),
    ("tag(X, name=X)", "tag: the param name=Array([1., 1., 1.],"),
    ('taxpr.keep("a")', "tag: the token is a str, which is no array. A"),
    ("taxpr.keep(X, name=[1])", "tag: the param name=[1] is a list, which is not"),
    ('taxpr.tag_cotangent("a")', "tag_cotangent: the token is a str, which is no"),
    ("taxpr.tag_cotangent(X, name={})", "tag_cotangent: the param name={} is a dict,"),
    ("taxpr.tag_params(3)", "tag_params: 3 is an int, not an equation. Give"),
    ("taxpr.tag_params(EQ)", "tag_params: the equation is a sin, not a tag."),
    ("taxpr.tag_params(None)", "tag_params: None is a NoneType, not an"),
    ("taxpr.tag_tree(3)", "tag_tree: 3 is an int, not an equation. Give one"),
    ("taxpr.tag_tree(EQ)", "tag_tree: the equation is a sin, not a tag."),
    ("taxpr.tag_avals(3)", "tag_avals: 3 is an int, not an equation. Give"),
    ("taxpr.tag_avals(EQ)", "tag_avals: the equation is a sin, not a tag."),
    ("taxpr.is_tag(3)", "is_tag: 3 is an int, not an equation. Give one"),
    ("taxpr.is_tag(None)", "is_tag: None is a NoneType, not an equation."),
    ('taxpr.is_tag("a")', "is_tag: 'a' is a str, not an equation. Give one"),
    ("taxpr.is_hop(3)", "is_hop: 3 is an int, not an equation. Give one"),
    ("taxpr.is_hop(None)", "is_hop: None is a NoneType, not an equation."),
    ("taxpr.is_unfinished(3)", "is_unfinished: 3 is an int, not an equation."),
    ("taxpr.is_recomputed(3)", "is_recomputed: 3 is an int, not an equation."),
    ("taxpr.is_library_file(3)", "is_library_file: 3 is an int, not the path of a"),
    ("taxpr.is_user_file(3)", "is_user_file: 3 is an int, not the path of a"),
    ("taxpr.is_user_file(None)", "is_user_file: None is a NoneType, not the path"),
    ("taxpr.file_text(3)", "file_text: 3 is an int, not the path of a file."),
    ("taxpr.file_text(None)", "file_text: None is a NoneType, not the path of"),
    ("taxpr.injectable(3)", "injectable: 3 is an int, not an equation. Give"),
    ("taxpr.nested_jaxprs(3)", "nested_jaxprs: 3 is an int, not an equation."),
    ("taxpr.nested_jaxprs(None)", "nested_jaxprs: None is a NoneType, not an"),
    ("taxpr.failure_of(3)", "failure_of: 3 is an int, not an equation. Give"),
    ("taxpr.failure_of(None)", "failure_of: None is a NoneType, not an"),
    ("taxpr.source_of(3)", "source_of: 3 is an int, not an equation. Give"),
    ('taxpr.source_of("a")', "source_of: 'a' is a str, not an equation. Give"),
    ("taxpr.sources_of(3)", "sources_of: 3 is an int, not an equation. Give"),
    ("taxpr.scope_of(3)", "scope_of: 3 is an int, not an equation. Give one"),
    ("taxpr.scopes_of(3)", "scopes_of: 3 is an int, not an equation. Give"),
    ("taxpr.transformations_of(3)", "transformations_of: 3 is an int, not an"),
    ("taxpr.statements_of(3)", "statements_of: 3 is an int, not an equation."),
    ('taxpr.statements_of("a")', "statements_of: 'a' is a str, not an equation."),
    ("taxpr.var_names(3)", "var_names: 3 is an int, not a Program or a"),
    ("taxpr.var_names(None)", "var_names: None is a NoneType, not a Program or"),
    ("taxpr.var_names(f)", "is a function, not a Program or a jaxpr. Trace"),
    ("taxpr.iter_eqns(3)", "iter_eqns: 3 is an int, not a Program or a"),
    ("list(taxpr.iter_eqns(3))", "iter_eqns: 3 is an int, not a Program or a"),
    ("list(taxpr.iter_eqns(None))", "iter_eqns: None is a NoneType, not a Program or"),
    ("list(taxpr.iter_eqns(f))", "is a function, not a Program or a jaxpr. Trace"),
    ("taxpr.numbered(3)", "numbered: 3 is an int, not a Program or a jaxpr. "),
    ("taxpr.numbered(f)", "is a function, not a Program or a jaxpr. Trace"),
    ("taxpr.numbered(None)", "numbered: None is a NoneType, not a Program or"),
    ("list(taxpr.iter_tags(3))", "iter_tags: 3 is an int, not a Program or a"),
    ("list(taxpr.iter_tags(None))", "iter_tags: None is a NoneType, not a Program or"),
    ("taxpr.dissolve_tags(3)", "dissolve_tags: 3 is an int, not a Program or a"),
    ("taxpr.dissolve_tags(JX, 3)", "dissolve_tags: predicate: 3 is an int, not a"),
    ('taxpr.dissolve_tags(JX, "h")', "dissolve_tags: predicate: 'h' is a str, not a"),
    # inject
    ("taxpr.inject(3, taxpr.scale(2.0))", "inject: 3 is an int, not a function, a Program"),
    ("taxpr.inject(None, taxpr.scale(2.0))", "inject: None is a NoneType, not a function, a"),
    ("taxpr.inject(f, 3)", "inject: 3 is an int. An injector is made by a"),
    ("taxpr.inject(f, None)", "inject: None is a NoneType. An injector is made"),
    ('taxpr.inject(f, "scale")', "inject: 'scale' is a str. An injector is made"),
    ("taxpr.inject(f, [])", "inject: the list of injectors is empty."),
    ('taxpr.inject(f, {"h": 3})', "inject: 3 is an int. An injector is made by a"),
    ('taxpr.inject(f, {"h": None})(None, X)', "inject: None is a NoneType. An injector is made"),
    ("taxpr.inject(f, 3).init(X)", "inject: 3 is an int. An injector is made by a"),
    ("taxpr.inject(f, None).init(X)", "inject: None is a NoneType. An injector is made"),
    ('taxpr.inject(f, "scale").init(X)', "inject: 'scale' is a str. An injector is made"),
    ("taxpr.inject(f, []).init(X)", "inject: the list of injectors is empty."),
    ('taxpr.inject(f, {"h": taxpr.scale}).init(X)', "inject: scale is a kind of injector, which"),
    ("taxpr.inject(f, taxpr.scale).init(X)", "inject: scale is a kind of injector, which"),
    (
        'taxpr.inject(f, taxpr.scale(2.0), where="q").init(X)',
        "where='q' does not match the only tag. There",
    ),
    (
        "taxpr.inject(f, taxpr.scale(2.0), where=3).init(X)",
        "where=3 is an int. A selector is a name, a glob,",
    ),
    (
        'taxpr.inject(f, taxpr.scale(2.0), custom_rules="q")',
        'inject: custom_rules is "keep" or "drop", not',
    ),
    (
        'taxpr.inject(f, taxpr.scale(2.0), custom_rules="q").init(X)',
        'inject: custom_rules is "keep" or "drop", not',
    ),
    (
        "taxpr.inject(f, taxpr.scale(2.0), custom_rules=None).init(X)",
        'inject: custom_rules is "keep" or "drop", not',
    ),
    (
        'taxpr.inject(f, taxpr.scale(2.0), shards="q").init(X)',
        'inject: shards is None, "psum", "pmax", "stack"',
    ),
    (
        "taxpr.inject(f, taxpr.scale(2.0), shards=3).init(X)",
        'inject: shards is None, "psum", "pmax", "stack"',
    ),
    ("taxpr.inject(f, lambda: 3, 0).init(X)", "inject: <lambda>() cannot be an injector, which"),
    (
        "taxpr.inject(f, lambda token: token).init(X)",
        "inject: <lambda>(token) cannot be an injector,",
    ),
    ("taxpr.inject(f, lambda c, t, p: t).init(X)", "inject: the injector '<lambda>' at tag 'h'"),
    ("taxpr.inject(f, lambda c, t, p: None).init(X)", "inject: the injector '<lambda>' at tag 'h'"),
    (
        "taxpr.inject(f, lambda c, t, p: (t[:2], c)).init(X)",
        "inject: the injector '<lambda>' at tag 'h'",
    ),
    (
        "taxpr.inject(f, ctxfn, predicate=lambda p, a: True)",
        "inject: predicate= is for jaxprs; here where=",
    ),
    ("taxpr.inject(JX, ctxfn)", "inject: a jaxpr needs the ctx, for its trees,"),
    ("taxpr.inject(JX, ctxfn, 0, 3)", "inject: predicate: 3 is an int, not a function."),
    ("taxpr.inject(JX, 3, 0)", "inject: 3 is an int, not a function."),
    ("taxpr.inject(JX, None, 0)", "inject: None is a NoneType, not a function."),
    ('taxpr.inject(JX, ctxfn, "a")', "inject: the ctx holds a str, 'a'. A ctx is a"),
    ('P.inject("a")', "inject: 'a' is a str. An injector is made by a"),
    ("P.inject(taxpr.scale(2.0), 3)", "inject: scale(factor=2.0) has a context of its"),
    (
        'P.inject({"h": taxpr.scale(2.0)}, where="h")',
        "inject: with a mapping, neither ctx nor where",
    ),
    ("P.inject({3: taxpr.scale(2.0)})", "where=3 is an int. A selector is a name, a glob,"),
    (
        'P.inject({None: taxpr.scale(2.0), "h": taxpr.scale(1.0)})',
        "inject: 'None' and 'h' both select the tag 'h'",
    ),
    ("P.inject(taxpr.scale)", "inject: scale is a kind of injector, which"),
    ("I(3, X)", "f was injected, so that it takes its context"),
    ("I(X)", "f was injected, so that it takes its context"),
    ("I()", "f was injected, so that it takes its context"),
    ("I(I.ctx)", "f: missing a required argument: 'x'. It was"),
    ("I.ctx_with(q=3)", "ctx_with: there is no parameter q. There is"),
    ('I.ctx_with(factor="a")', "ctx_with: factor of scale was given a str,"),
    ("I.ctx_with(factor=None)", "ctx_with: factor of scale has the structure"),
    ("I.ctx_with(factor=jnp.ones(5))", "ctx_with: factor of scale is float32[] in this"),
    ('I.ctx_with("q", factor=2.0)', "ctx_with: no parameters at the key 'q'; there"),
    ("I.ctx_with(3, factor=2.0)", "ctx_with: no parameters at the key 3; there are"),
    ("I.report(3)", "report: the ctx has the structure PyTreeDef(*),"),
    ("I.report(None)", "report: the ctx has the structure"),
    # collect
    ("taxpr.collect(3)", "collect: 3 is an int, not a function."),
    ("taxpr.collect(None)", "collect: None is a NoneType, not a function."),
    ('taxpr.collect("h", f)', "collect: 'h' is a str, not a function."),
    ("taxpr.collect(f, 3)(X)", "where=3 is an int. A selector is a name, a glob,"),
    ('taxpr.collect(f, "q")(X)', "where='q' does not match the only tag. There"),
    ('taxpr.collect(f, max_steps="a")(X)', "collect: max_steps='a'; it is a number from 1"),
    ("taxpr.collect(f, max_steps=0)(X)", "collect: max_steps=0; it is a number from 1 on,"),
    ("taxpr.collect(f, max_steps=-1)(X)", "collect: max_steps=-1; it is a number from 1"),
    ("taxpr.collect(f, max_steps=1.5)(X)", "collect: max_steps=1.5; it is a number from 1"),
    ('taxpr.collect(f, stack="a")(X)', "collect: stack='a' is a str. Give True or False."),
    ("taxpr.collect(f, stack=3)(X)", "collect: stack=3 is an int. Give True or False."),
    ("taxpr.collect(f, custom_rules=3)(X)", 'inject: custom_rules is "keep" or "drop", not 3.'),
    ("P.collect(3)", "where=3 is an int. A selector is a name, a glob,"),
    ('P.collect("q")', "where='q' does not match the only tag. There"),
    ('P.until("q")', "where='q' does not match the only tag. There"),
    ("P.until(3)", "where=3 is an int. A selector is a name, a glob,"),
    ('P.until(max_steps="a")', "collect: max_steps='a'; it is a number from 1"),
    ("P.plant(3)", "plant: the values are an int. Give a mapping"),
    ('P.plant({"h": "a"})', "plant: 'a' is no number or array, nor a tree of"),
    ('P.plant({"h": None})', "plant: the values have the structure"),
    ('P.plant({"h": jnp.ones(5)})', "plant: the value is float32[5] and the token"),
    ('P.plant({"h": X}, at="a")', "plant: at='a' is no number or array, nor a tree"),
    ('P.plant({"h": X}, at=0)', "plant: at= is for 1 loop, and around the tag"),
    ("P.plant(None)", "plant: the values are a NoneType. Give a"),
    # injectors
    ('taxpr.scale("a")', "scale: factor='a' is no number or array, nor a"),
    ("taxpr.scale(2.0, 3.0)", "scale: too many positional arguments. It takes"),
    ("taxpr.scale(facto=2.0)", "scale: got an unexpected keyword argument"),
    ('P.inject(taxpr.scale("a"))', "scale: factor='a' is no number or array, nor a"),
    ("P.inject(taxpr.scale(None))", "scale: factor is a NoneType, where the token"),
    ("P.inject(taxpr.scale([]))", "scale: the factor has shape (0,) and the token"),
    ("P.inject(taxpr.scale(jnp.ones(7)))", "scale: the factor has shape (7,) and the token"),
    ('taxpr.add("a")', "add: value='a' is no number or array, nor a"),
    ('P.inject(taxpr.add("a"))', "add: value='a' is no number or array, nor a"),
    ("P.inject(taxpr.add(None))", "add: value is a NoneType, where the token has"),
    ('P.inject(taxpr.replace("a"))', "replace: value='a' is no number or array, nor a"),
    ("P.inject(taxpr.replace(None))", "replace: value is a NoneType, where the token"),
    ("P.inject(taxpr.replace(jnp.ones(7)))", "replace: the value has shape (7,) and the token"),
    ('taxpr.clip("a", "b")', "clip: low='a' is no number or array, nor a tree"),
    ('P.inject(taxpr.clip("a", "b"))', "clip: low='a' is no number or array, nor a tree"),
    ("P.inject(taxpr.clip(3.0, 1.0))", "clip: low=3.0 is above high=1.0. Nothing is"),
    ("P.inject(taxpr.clip(None))", "clip: low is None. Leave it out for an open"),
    ('taxpr.noise("a")', "noise: key='a' is no number or array, nor a"),
    ("taxpr.noise(None)", "noise: key=None is no PRNG key. Give one, such"),
    ("taxpr.noise(1.5)", "noise: key=1.5 is no PRNG key. Give one, such"),
    ("taxpr.noise()", "noise: missing a required argument: 'key'. It"),
    ("taxpr.noise(X)", "noise: key=Array([1., 1., 1.], dtype=float32)"),
    ('P.inject(taxpr.noise("a"))', "noise: key='a' is no number or array, nor a"),
    ("P.inject(taxpr.noise(None))", "noise: key=None is no PRNG key. Give one, such"),
    ("P.inject(taxpr.noise(1.5))", "noise: key=1.5 is no PRNG key. Give one, such"),
    ('P.inject(taxpr.noise(KEY, "a"))', "noise: stddev='a' is no number or array, nor a"),
    (
        "P.inject(taxpr.noise(jax.random.split(KEY)))",
        "noise: key is key<fry>[2]. Give one PRNG key,",
    ),
    ('P.inject(taxpr.cast("nothing"))', "cast: dtype='nothing' is no dtype"),
    ("P.inject(taxpr.cast(3))", "cast: dtype=3 is no dtype of numbers. Give one"),
    ("P.inject(taxpr.cast(None))", "cast: dtype=None is no dtype of numbers. Give"),
    ('P.inject(taxpr.record("a"))', "record: slots='a'; it is a number from 1 on, or"),
    ("P.inject(taxpr.record(-1))", "record: slots=-1; it is a number from 1 on, or"),
    ("P.inject(taxpr.record(0))", "record: slots=0; it is a number from 1 on, or"),
    ("P.inject(taxpr.record(1.5))", "record: slots=1.5; it is a number from 1 on, or"),
    ("P.inject(taxpr.print(3))", "print: too many positional arguments. It takes"),
    ("taxpr.print(3)", "print: too many positional arguments. It takes"),
    ('taxpr.print(fomat="a")', "print: got an unexpected keyword argument"),
    ("taxpr.count(3)", 'count: per=3; it is "iteration", for one row'),
    ("taxpr.zero(3)", "zero: too many positional arguments. It takes"),
    ("taxpr.stop_gradient(3)", "stop_gradient: too many positional arguments."),
    ("taxpr.check_finite(3)", 'check_finite: per=3; it is "iteration", for one'),
    ("taxpr.stats(3)", 'stats: per=3; it is "iteration", for one row'),
    ('taxpr.stats(bins="a")', "stats: got an unexpected keyword argument"),
    ('taxpr.state("a")', "state: 'a' is no number or array, nor a tree of"),
    ("P.inject(taxpr.state(3))", "state: the tag has no op. A tag that reads the"),
    ("taxpr.per_example(3)", "per_example: 3 is an int. Give an injector such"),
    ("taxpr.per_example(None)", "per_example: None is a NoneType. Give an"),
    ('taxpr.per_example("a")', "per_example: 'a' is a str. Give an injector"),
    ("taxpr.per_example(taxpr.scale)", "per_example: scale is a kind of injector, which"),
    ("taxpr.per_example(taxpr.scale(2.0), 3)", "per_example: scale(factor=2.0) has a context of"),
    ("P.inject(taxpr.per_example(taxpr.scale(2.0)))", "per_example: the tag 'h'"),
    ("taxpr.from_function(3, 0)", "from_function: 3 is an int. Give a function"),
    ("taxpr.from_function(None)", "from_function: None is a NoneType. Give a"),
    ('taxpr.from_function("a")', "from_function: 'a' is a str. Give a function"),
    ("taxpr.from_function(taxpr.scale(2.0))", "from_function: scale(factor=2.0) is an injector"),
    ("taxpr.from_function(taxpr.scale)", "from_function: scale(factor=0.5) ->"),
    ("taxpr.from_function(lambda: 3)", "from_function: <lambda>() is called with (ctx,"),
    ("taxpr.from_function(lambda a: a)", "from_function: <lambda>(a) is called with (ctx,"),
    ("taxpr.from_function(ctxfn, rate=0.5)", "from_function: ctxfn(ctx, token, params) is"),
    ('taxpr.from_function(ctxfn, "a")', "from_function: ctx='a' is no number or array,"),
    ('taxpr.from_function(ctxfn, observes="a")', "from_function: observes='a' is a str. Give True"),
    ("taxpr.injector(3)", "injector: 3 was given. It takes declarations by"),
    ("taxpr.injector(f)", "injector: 'f' was given. It takes declarations"),
    ("taxpr.injector()(3)", "injector: 3 is an int, not a function."),
    ("taxpr.injector()(None)", "injector: None is a NoneType, not a function."),
    ("taxpr.injector(state=3)", "injector: state=3 is an int, not a function."),
    (
        "taxpr.injector(state=3)(lambda token, state: (token, state))",
        "injector: state=3 is an int, not a function.",
    ),
    (
        "taxpr.injector(report=3)(lambda token: token)",
        "injector: report=3 is an int, not a function.",
    ),
    (
        "taxpr.injector(options=3)(lambda token: token)",
        "injector: options=3 is an int. Give a dict of",
    ),
    (
        "taxpr.injector(check=3)(lambda token: token)",
        "injector: check=3 is an int, not a function.",
    ),
    (
        "taxpr.injector(rate=0.5)(lambda token, rate: token)",
        "injector: rate=0.5 is a float. A parameter is",
    ),
    (
        "taxpr.injector(rate=None)(lambda token, rate: token)",
        "injector: rate=None is a NoneType. A parameter",
    ),
    (
        'taxpr.injector(adds_up="a")(lambda token: token)',
        "injector: adds_up='a' is a str. Give True or",
    ),
    ('taxpr.Param(1.0, low="a")', "Param: low='a' is no number."),
    ("taxpr.Param(1.0, low=2.0, high=1.0)", "Param: low=2.0 is above high=1.0."),
    ('taxpr.plant(X, at="a")', "plant: at='a' is no number or array, nor a tree"),
    ("taxpr.plant(X, at=1.5)", "plant: at=1.5 is float32, not a number of an"),
    ("taxpr.plant(X, at=[])", "plant: at=[] is float32, not a number of an"),
    ('taxpr.plant("a")', "plant: 'a' is no number or array, nor a tree of"),
    ('taxpr.plant(X, mask="a")', "plant: mask='a' is no number or array, nor a"),
    ("taxpr.plant(X, mask=3)", "plant: the mask is int32, not bool."),
    ('P.inject(taxpr.plant("a"))', "plant: 'a' is no number or array, nor a tree of"),
    ("P.inject(taxpr.plant(None))", "plant: the values have the structure"),
    ("P.inject(taxpr.plant(X, at=0))", "plant: at= is for 1 loop, and around the tag"),
    ("P.inject(taxpr.plant(X, at=(0, 1)))", "plant: at= is for 2 loops, and around the tag"),
    # selectors
    ("taxpr.var(3)", "var: 3 is no name of a variable. Give one such"),
    ("taxpr.var(None)", "var: None is no name of a variable. Give one"),
    ('taxpr.var("")', "var: '' is no name of a variable. Give one such"),
    ('taxpr.var("x", line="a")', "var: line='a' is no number."),
    ('taxpr.var("x", occurrence=1.5)', "var: occurrence=1.5 is no number."),
    ('taxpr.var("x", occurrence=-1)', "var: occurrence=-1 does not exist. Occurrences"),
    ('taxpr.var("x", line=-3)', "var: line=-3 does not exist. Lines count from 1."),
    ('taxpr.var("x", inside="a")', "var: inside='a' is a str, not a bool."),
    ("taxpr.cotangent(3)", "cotangent: 3 is an int. Give a variable, as"),
    ("taxpr.cotangent(None)", "cotangent: None is a NoneType. Give a variable,"),
    ("taxpr.cotangent([])", "cotangent: [] is empty and selects nothing."),
    ('taxpr.cotangent("")', "cotangent: '' is empty and selects nothing."),
    ("taxpr.scope(3)", "scope: 3 is no pattern of scopes. Give one such"),
    ('taxpr.scope("")', "scope: '' is no pattern of scopes. Give one"),
    ("taxpr.scope(None)", "scope: None is no pattern of scopes. Give one"),
    ('taxpr.line("a")', "line: 'a' is no line of a source. Give a"),
    ("taxpr.line(None)", "line: None is no line of a source. Give a"),
    ("taxpr.line(True)", "line: True is no line of a source. Give a"),
    ("taxpr.line(1.5)", "line: 1.5 is no line of a source. Give a"),
    ("taxpr.line(-3)", "line: -3 is no line of a source. Give a number,"),
    ("taxpr.line(0)", "line: 0 is no line of a source. Give a number,"),
    ("P.tags(taxpr.maybe(3))", "where=3 is an int. A selector is a name, a glob,"),
    ('taxpr.each(axis="a")', "each: axis='a' is no number of an axis."),
    ('taxpr.each(iterations="a")', "each: iterations='a' are no numbers of"),
    ("taxpr.each(iterations=3)", "each: iterations=3 are no numbers of"),
    ("taxpr.each(iterations=[-1])", "each: iterations=[-1] are no numbers of"),
    ("taxpr.each(iterations=None)", "each: iterations=None are no numbers of"),
    ("taxpr.each(iterations=[1.5])", "each: iterations=[1.5] are no numbers of"),
    ("taxpr.each(axis=True)", "each: axis=True is no number of an axis."),
    ("taxpr.first_difference(f, f, atol=True)(X)", "first_difference: atol=True is no tolerance."),
    # sweep, patch
    ('taxpr.sweep(3, "h", taxpr.zero())', "sweep: 3 is an int, not a function."),
    ('taxpr.sweep(None, "h", taxpr.zero())', "sweep: None is a NoneType, not a function."),
    ('taxpr.sweep(f, "h", 3)', "sweep: int is no injector. Give a kind such as"),
    ('taxpr.sweep(f, "h", None)', "sweep: NoneType is no injector. Give a kind"),
    ('taxpr.sweep(f, "h", taxpr.zero())', "sweep: that would be a single run. Give values"),
    (
        'taxpr.sweep(f, "h", taxpr.scale, ["a"])(X)',
        "sweep: factor=['a'] is no number or array, nor",
    ),
    ('taxpr.sweep(f, "h", taxpr.scale, "a")(X)', "sweep: factor='a' is no number or array, nor a"),
    ('taxpr.sweep(f, "h", taxpr.scale, 3.0)(X)', "sweep: the values of factor are no list of"),
    ('taxpr.sweep(f, "h", taxpr.scale, [])(X)', "sweep: the list of values of factor is"),
    (
        'taxpr.sweep(f, "h", taxpr.scale, [[1.0, 2.0], [3.0]])(X)',
        "sweep: the values of factor are no array: ",
    ),
    (
        'taxpr.sweep(f, "h", taxpr.scale, [jnp.ones(2), jnp.ones(3)])(X)',
        "sweep: the values of factor are no array: ",
    ),
    ('taxpr.sweep(f, "h", taxpr.scale, [None])(X)', "sweep: factor=[None]: None is no value."),
    (
        'taxpr.sweep(f, "h", taxpr.scale, {"q": [1.0]})',
        "sweep: scale has no parameter 'q' whose value",
    ),
    (
        'taxpr.sweep(f, "h", taxpr.scale, {"factor": "a"})',
        "sweep: factor='a' is no number or array, nor a",
    ),
    ('taxpr.sweep(f, "h", taxpr.scale, {})', "sweep: that would be a single run. Give values"),
    (
        'taxpr.sweep(f, "h", taxpr.scale, [1.0], metric=3)',
        "sweep: metric: 3 is an int, not a function.",
    ),
    (
        'taxpr.sweep(f, "h", taxpr.scale, [1.0], metric="a")',
        "sweep: metric: 'a' is a str, not a function.",
    ),
    (
        'taxpr.sweep(f, "h", taxpr.scale, [1.0], memory="a")(X)',
        "sweep: memory='a' is no number of bytes. Give",
    ),
    (
        'taxpr.sweep(f, "h", taxpr.scale, [1.0], memory=-1)(X)',
        "sweep: memory=-1 is no number of bytes. Give",
    ),
    (
        'taxpr.sweep(f, "h", taxpr.scale, [1.0], memory=0)(X)',
        "sweep: memory=0 is no number of bytes. Give one",
    ),
    (
        'taxpr.sweep(f, "h", taxpr.scale, [1.0], chunk="a")(X)',
        "sweep: chunk='a' is no number of runs.",
    ),
    ('taxpr.sweep(f, "h", taxpr.scale, [1.0], chunk=0)(X)', "sweep: chunk=0 is no number of runs."),
    (
        'taxpr.sweep(f, "h", taxpr.scale, [1.0], progress=3)(X)',
        "sweep: progress=3 is an int. Give a function",
    ),
    (
        'taxpr.sweep(f, "h", taxpr.scale, [1.0], progress="a")(X)',
        "sweep: progress='a' is a str. Give a function",
    ),
    (
        'taxpr.sweep(f, "h", taxpr.scale, [1.0], custom_rules="a")(X)',
        'inject: custom_rules is "keep" or "drop", not',
    ),
    ('taxpr.sweep(f, "q", taxpr.scale, [1.0])(X)', "where='q' does not match the only tag. There"),
    ("taxpr.sweep(f, 3, taxpr.scale, [1.0])(X)", "sweep: where is an array. It takes a function"),
    (
        'taxpr.sweep(f, taxpr.each("h", axis=7), taxpr.zero())(X)',
        "each: axis=7 is no axis of the tag 'h'",
    ),
    ('taxpr.sweep(f, "h", taxpr.count, [1.0])', "sweep: count has no parameter to take values of."),
    (
        'taxpr.sweep(f, "h", [taxpr.scale], [1.0])',
        "sweep: list is no injector. Give a kind such as",
    ),
    ("taxpr.sweep(f)", "sweep: missing a required argument: 'where'. It"),
    (
        'taxpr.sweep(f, "h", taxpr.scale, [1.0])()',
        "sweep(f): f(x) was called with other arguments:",
    ),
    ("taxpr.sweep(f, X, taxpr.zero())", "sweep: where is an array. It takes a function"),
    (
        'taxpr.sweep(lambda x: tag(x, name="h"), "h", taxpr.scale, [1.0])(X)',
        "sweep: the metric is float32[3], not one real",
    ),
    (
        'taxpr.sweep(f, "h", taxpr.scale, [1.0], metic=jnp.sum)',
        "sweep: got an unexpected keyword argument",
    ),
    ('taxpr.patch(f, taxpr.var("y"))(X)', "patch: it takes two inputs, and was given 1."),
    ('taxpr.patch(f, "h")(X)', "patch: it takes two inputs, and was given 1."),
    ('taxpr.patch(f, "h")()', "patch: it takes two inputs, and was given 0."),
    ('taxpr.patch(f, "h")(X, X, X)', "patch: it takes two inputs, and was given 3."),
    ('taxpr.patch(f, "h")(X, X)', "patch: the metric is 2.5244128704071045 in both"),
    ('taxpr.patch(f, "h")("a", X)', "patch: the input [0] is str in the clean arguments and"),
    ('taxpr.patch(f, "h")(X, jnp.ones(5))', "patch: the input [0] is float32[3] in the clean"),
    ('taxpr.patch(3, "h")', "patch: 3 is an int, not a function."),
    ('taxpr.patch(None, "h")', "patch: None is a NoneType, not a function."),
    ('taxpr.patch(f, "h", 3)', "patch: metric: 3 is an int, not a function."),
    ('taxpr.patch(f, "h", sources="x")', 'patch: sources are "clean", "corrupted" or'),
    ('taxpr.patch(f, "h", sources=())', 'patch: sources are "clean", "corrupted" or'),
    ('taxpr.patch(f, "h", sources=3)', 'patch: sources are "clean", "corrupted" or'),
    ('taxpr.patch(f, "h", max_steps="a")(X, 2*X)', "collect: max_steps='a'; it is a number from 1"),
    ('taxpr.patch(f, "h", max_steps=-1)(X, 2*X)', "collect: max_steps=-1; it is a number from 1"),
    ('taxpr.patch(f, "h", memory="a")(X, 2*X)', "patch: memory='a' is no number of bytes. Give"),
    ('taxpr.patch(f, "h", chunk=1.5)(X, 2*X)', "patch: chunk=1.5 is no number of runs."),
    ("taxpr.patch(f, 3)(X, 2*X)", "patch: where is an array. It takes a function"),
    ('taxpr.patch(f, "q")(X, 2*X)', "where='q' does not match the only tag. There"),
    ('taxpr.patch(P, "h")(X)', "patch: it takes two inputs, and was given 1."),
    # watch and recordings
    ("taxpr.watch(3)", "watch: 3 is an int, not a function."),
    ("taxpr.watch(None)", "watch: None is a NoneType, not a function."),
    ('taxpr.watch("f")', "watch: 'f' is a str, not a function."),
    ("taxpr.watch(f, 3)(X)", "watch: where is an array. It takes a function"),
    ('taxpr.watch(f, "q")(X)', "where='q': no variable or tag has that name, and"),
    ('taxpr.watch(f, keep="a")(X)', "watch: keep='a' is not one of 'auto', 'values',"),
    ("taxpr.watch(f, keep=3)(X)", "watch: keep=3 is not one of 'auto', 'values',"),
    ('taxpr.watch(f, memory="a")(X)', "watch: memory='a' is no number of bytes. Give"),
    ("taxpr.watch(f, memory=-1)(X)", "watch: memory=-1 is no number of bytes. Give"),
    ("taxpr.watch(f, memory=0)(X)", "watch: memory=0 is no number of bytes. Give one"),
    (
        'taxpr.watch(f, grads="a")(X)',
        "f has no result 'a' that is a scalar of floats. There",
    ),
    ("taxpr.watch(f, grads=3)(X)", "watch: grads=3 is an int. Give True or False."),
    ("taxpr.watch(f)()", "watch(f): f(x) was called with other arguments:"),
    ("taxpr.watch(f, X)", "watch: where is an array. It takes a function"),
    ('REC["q"]', "the recording of f has no 'q'. There are: x, h,"),
    ("REC[3]", "the recording of f has no 3. Give the name of a"),
    ("REC[None]", "the recording of f has no None. Give the name"),
    ('REC[""]', "var: '' is no name of a variable. Give one such"),
    ("REC[[]]", "the recording of f has no []. Give the name of"),
    ('REC.at_line("model.py")', "at_line: 'model.py' is no line of a file. Give"),
    ("REC.at_line(3)", "at_line: 3 is no line of a file. Give both, as"),
    ("REC.at_line(None)", "at_line: None is no line of a file. Give both,"),
    ('REC["h"].at(3)', "at: occurrence 3: h has 1 value, from 0."),
    ('REC["h"].at("a")', "at: occurrence 'a': h has 1 value, from 0."),
    ('REC["h"].at(step=3)', "at: step=3: h has no iterations."),
    ('REC["h"].at(step="a")', "at: step=a: h has no iterations."),
    ("REC.save(3)", "save: 3 is an int, not the path of a file."),
    ("REC.save(None)", "save: None is a NoneType, not the path of a"),
    ("taxpr.load_recording(3)", "load_recording: 3 is an int, not the path of a"),
    ("taxpr.load_recording(None)", "load_recording: None is a NoneType, not the"),
    # questions
    ('taxpr.first_difference(f, f, atol="a")(X)', "first_difference: atol='a' is no tolerance."),
    ("taxpr.first_difference(f, f, atol=-1.0)(X)", "first_difference: atol=-1.0 is no tolerance."),
    ('taxpr.first_difference(f, f, rtol="a")(X)', "first_difference: rtol='a' is no tolerance."),
    (
        'taxpr.first_difference(f, f, rtol=float("nan"))(X)',
        "first_difference: rtol=nan is no tolerance.",
    ),
    ("taxpr.first_difference(f, 3)(X)", "first_difference: other is 3. Give another function, "),
    ("taxpr.first_difference(f, X)(X)", "first_difference: other is an array. Give another"),
    ('taxpr.first_difference(f, "q")(X)', "first_difference: 'q' is no way to run"),
    ("taxpr.first_difference(f)(X)", "first_difference: without `other` it takes two"),
    ("taxpr.first_difference(f)(X, X, X)", "first_difference: without `other` it takes two"),
    ("taxpr.first_difference(f)()", "first_difference: without `other` it takes two"),
    ("taxpr.first_difference(3, f)", "first_difference: 3 is an int, not a function."),
    ("taxpr.first_difference(None)", "first_difference: None is a NoneType, not a"),
    ("taxpr.first_difference(f, f, where=3)(X)", "first_difference: where is an array. It takes a"),
    (
        'taxpr.first_difference(f, f, where="q")(X)',
        "where='q': no variable or tag has that name, and",
    ),
    (
        'taxpr.first_difference(f, f, memory="a")(X)',
        "watch: memory='a' is no number of bytes. Give",
    ),
    ("taxpr.first_difference(f, f, tol=1)", "first_difference: got an unexpected keyword"),
    ("taxpr.flow(f, step=3)(X)", "flow: step: 3 is an int, not a function."),
    ('taxpr.flow(f, step="a")(X)', "flow: step: 'a' is a str, not a function."),
    ('taxpr.flow(f, step=lambda x: {"a": x})(X)', "flow: step is to return the new value of the"),
    ('taxpr.flow(f, step=lambda x: "a")(X)', "flow: step is to return the new value of the"),
    ("taxpr.flow(f, step=lambda x: (x[:2],))(X)", "flow: step is to return the new value of the"),
    ("taxpr.flow(f, step=lambda: 3)(X)", "flow: step: <lambda>() was called with other"),
    ("taxpr.flow(3)", "flow: 3 is an int, not a function."),
    ("taxpr.flow(None)", "flow: None is a NoneType, not a function."),
    ("taxpr.flow(f, 3)(X)", "flow: where is an array. It takes a function"),
    ('taxpr.flow(f, "q")(X)', "where='q': no variable or tag has that name, and"),
    ('taxpr.flow(f, memory="a")(X)', "flow: memory='a' is no number of bytes. Give"),
    ("taxpr.flow(f, step=lambda x: [x])(X)", "flow: step is to return the new value of the"),
    ("taxpr.flow(f)()", "flow(f): f(x) was called with other arguments:"),
    ("taxpr.find_nan(3)", "find_nan: 3 is an int, not a function."),
    ("taxpr.find_nan(None)", "find_nan: None is a NoneType, not a function."),
    ("taxpr.find_nan(f, 3)(X)", "find_nan: too many positional arguments. It"),
    ('taxpr.find_nan(f, memory="a")(X)', "watch: memory='a' is no number of bytes. Give"),
    ("taxpr.find_nan(f)()", "find_nan(f): f(x) was called with other arguments:"),
    ("taxpr.find_nan(f, wher=3)", "find_nan: got an unexpected keyword argument"),
    ("taxpr.check(3)", "check: 3 is an int, not a function."),
    ("taxpr.check(None)", "check: None is a NoneType, not a function."),
    ('taxpr.check("f")', "check: 'f' is a str, not a function."),
    ("taxpr.check(f)()", "check(f): f(x) was called with other arguments:"),
    ('taxpr.check(f, rules="q")(X)', "check: got an unexpected keyword argument"),
    ("taxpr.check(f, rules=3)(X)", "check: got an unexpected keyword argument"),
    ("taxpr.check(f, ignore=3)(X)", "check: there is no rule 3. There are promotion,"),
    ("taxpr.check(f, q=3)(X)", "check: got an unexpected keyword argument 'q'."),
    ('taxpr.grad_at(3, "h")', "trace: 3 is an int, not a function."),
    ('taxpr.grad_at(None, "h")', "trace: None is a NoneType, not a function."),
    ("taxpr.grad_at(f, 3)(X)", "where=3 is an int. A selector is a name, a glob,"),
    ('taxpr.grad_at(f, "q")(X)', "where='q' does not match the only tag. There"),
    (
        'taxpr.grad_at(lambda x: tag(x, name="h"), "h")(X)',
        "grad_at: <lambda> returns float32[3]. Only",
    ),
    (
        'taxpr.grad_at(f, "h", custom_rules=3)(X)',
        'inject: custom_rules is "keep" or "drop", not 3.',
    ),
    ("taxpr.until_error(3)", "until_error: 3 is an int, not an error. Give"),
    ("taxpr.until_error(None)", "until_error: None is a NoneType, not an error."),
    ('taxpr.until_error("a")', "until_error: 'a' is a str, not an error. Give"),
    # what XLA makes of it
    ("TIMES.save_trace(3)", "save_trace: 3 is an int, not the path of a file."),
    ("TIMES.save_trace(None)", "save_trace: None is a NoneType, not the path of"),
    ('TIMES.save_trace("no/a.json")', "save_trace: 'no/a.json' cannot be written: No"),
    ('TIMES.save_trace("/")', "save_trace: '/' cannot be written: Is a"),
    ("USE.to_json(3)", "to_json: 3 is an int, not the path of a file."),
    ('USE.to_json("no/a.json")', "to_json: 'no/a.json' cannot be written: No such"),
    ("USE.to_csv([])", "to_csv: [] is a list, not the path of a file."),
    ('USE.to_csv("no/a.csv")', "to_csv: 'no/a.csv' cannot be written: No such"),
    ('REC.save("no/a.npz")', "save: 'no/a.npz' cannot be written: No such"),
    ("USE.at(1.5)", "at: there is no step 1.5, but 0 to"),
    ('USE.what_if(donate="x", measure="yes")', "what_if: measure='yes' is a str. Give True"),
    ("USE.what_if(donate=1.5)", "what_if: donate=1.5 is no argument of f that was"),
    ("USE.advice(measure=3)", "advice: measure=3 is an int. Give True or False."),
    ('taxpr.memory("f")', "memory: 'f' is a str, not a function."),
    ("taxpr.memory(JX)", "memory: given is a"),
    ("taxpr.memory(f, compile=None)", "memory: compile=None: give True, or False for"),
    ("taxpr.profile(f, runs=-1)", "profile: runs=-1: give a number of runs, such"),
    ('taxpr.profile(f, progress="yes")(X)', "profile: progress='yes' is a str. Give a"),
    ("taxpr.profile(JX)", "profile: given is a"),
    ("taxpr.compiled(f, options={3: 1})", "compiled: options={3: 1} is a dict. Give a dict"),
    ("taxpr.compiled(JX)", "compiled: given is a"),
    ("taxpr.compiled(f)(X).compare(3)", "compare: other is an int. Give what"),
    ('taxpr.summary(f, measure="yes")(X)', "summary: measure='yes' is a str. Give True or"),
    ("taxpr.summary(f, parameters=3)(X)", "summary: parameters=3: give the name of an"),
    ("taxpr.summary(JX)", "summary: given is a"),
    ("taxpr.summary(f, measure=True)(TYPE)", "summary: an argument is ShapeDtypeStruct("),
    ('taxpr.compile_time(f, by=["a"])', "compile_time: by=['a'] is not one of 'function',"),
    ("taxpr.compile_time(f, progress=3)(X)", "compile_time: progress=3 is an int. Give a"),
    ("taxpr.compile_time(JX)", "compile_time: given is a"),
    ("taxpr.why_compiled(None)", "why_compiled: None is a NoneType, not a"),
    ("taxpr.why_compiled(f, X)", "why_compiled: too many positional arguments. Give it a"),
    ("taxpr.why_compiled()", "why_compiled: missing a required argument: 'fun'. Give"),
    ("taxpr.why_compiled(f, eager=True)", "why_compiled: got an unexpected keyword argument"),
    ("taxpr.compiles(3)", "compiles: too many positional arguments. Use it in a"),
    ("taxpr.compiles(f)(X)", "compiles: too many positional arguments. Use it in a"),
    ("taxpr.compiles(all=True)", "compiles: got an unexpected keyword argument 'all'. Use"),
    ('USE.what_if("f")', "what_if: too many positional arguments. Give it one change"),
    ('USE.what_if(remat="f")', "what_if: got an unexpected keyword argument 'remat'. Give"),
    ("USE.advice(True)", "advice: too many positional arguments. Give it nothing,"),
    ("USE.at()", "at: missing a required argument: 'step'. Give it the"),
    ("MADE.compare()", "compare: missing a required argument: 'other'. Give it"),
    ("MADE.compare(MADE, MADE)", "compare: too many positional arguments. Give it"),
    ("MADE.save()", "save: missing a required argument: 'path'. Give it the path"),
    ("taxpr.questions.load_compiled()", "load_compiled: missing a required argument: 'path'."),
    ('taxpr.compiles(eager="yes")', "compiles: eager='yes' is a str. Give True or"),
    ("taxpr.check_grad(f, memory=-1)(X)", "check_grad: memory=-1 is no number of bytes."),
    ("taxpr.check_grad(f, progress=3)(X)", "check_grad: progress=3 is an int. Give a"),
    ("taxpr.check_grad(f)(TYPE)", "f: the argument x is a ShapeDtypeStruct, which"),
    # states
    ('taxpr.State("a", None)', "State: the value holds a str, 'a'. A state is a"),
    ("taxpr.uncurry(3)", "uncurry: 3 is an int, not a function."),
    ("taxpr.uncurry(None)", "uncurry: None is a NoneType, not a function."),
    ('taxpr.uncurry("f")', "uncurry: 'f' is a str, not a function."),
    ("taxpr.states_of(3)", "states_of: 3 is an int, not a Program or a"),
    ("taxpr.states_of(None)", "states_of: None is a NoneType, not a Program or"),
    ("taxpr.make_jaxpr(3)", "make_jaxpr: 3 is an int, not a function."),
    ("taxpr.make_jaxpr(None)", "make_jaxpr: None is a NoneType, not a function."),
    # drop-in
    ("taxpr.partial(3, {})", "partial: 3 is an int, not a Program or a jaxpr. "),
    ("taxpr.partial(None, {})", "partial: None is a NoneType, not a Program or a"),
    ("taxpr.partial(JX, 3)", "partial: args is an int. Give the values by the"),
    ("taxpr.partial(JX, None)", "partial: args is a NoneType. Give the values by"),
    ('taxpr.partial(JX, {0: "a"})', "partial: the input 0 is float32[3], and 'a'"),
    ('taxpr.partial(JX, {"a": 1.0})', "partial: 'a' is a str and no number of an input."),
    ("taxpr.partial(f, {0: X})", "is a function, not a Program or a jaxpr. Trace"),
    ("taxpr.partition_out(3, [[0]])", "partition_out: 3 is an int, not a Program or a"),
    ("taxpr.partition_out(JX, 3)", "partition_out: 3 is an int. Give for each part a"),
    ("taxpr.partition_out(JX, None)", "partition_out: None is a NoneType. Give for"),
    ('taxpr.partition_out(JX, [["a"]])', "partition_out: 'a' is a str and no number of an"),
    ("taxpr.transpose(3)", "transpose: 3 is an int, not a Program or a"),
    ("taxpr.transpose(None)", "transpose: None is a NoneType, not a Program or"),
    ("taxpr.tcj_partition_out(3, 3)", "tcj_partition_out: 3 is an int, not a"),
    ("taxpr.tcj_partition_out(None, None)", "tcj_partition_out: None is a NoneType, not a"),
    # others
    ("taxpr.register_hop(None, None)", "register_hop: None is a NoneType. An entry is"),
    ('taxpr.register_hop("scan", 3)', "register_hop: 'scan' is a str. An entry is for"),
    ("taxpr.register_hop(jax.lax.sin_p, 3)", "register_hop: the entry of sin is an int, not a"),
    ("taxpr.with_settings(3)", "with_settings: 3 is an int, not a function."),
    ("taxpr.with_settings(None)", "with_settings: None is a NoneType, not a"),
    ("taxpr.warnings_to(3).__enter__()", "warnings_to: 3 is an int, not a function."),
    ("taxpr.warnings_to(None).__enter__()", "warnings_to: None is a NoneType, not a function."),
]


@pytest.mark.parametrize(("expression", "message"), ROWS, ids=[row[0] for row in ROWS])
def test_a_mistake_is_named(expression, message):
    with pytest.raises(taxpr.TaxprError) as info:
        eval(expression, globals())
    assert " ".join(message.split()) in " ".join(str(info.value).split())


@pytest.mark.parametrize("ask", [taxpr.trace, taxpr.watch, taxpr.flow, taxpr.find_nan, taxpr.check])
def test_a_text_that_was_to_be_an_array(ask):
    """JAX's error, with a sentence of why."""
    with pytest.raises(TypeError, match=r"A static argument\? f was given x='a', which is no arr"):
        ask(f)("a")
    with pytest.raises(TypeError, match=r"not a valid JAX type|as an abstract array"):
        ask(f)(np.array("a"))


def test_an_error_of_the_function_itself_stays():
    def wrong(x):
        return len(x, 3)

    with pytest.raises(TypeError, match=r"^len\(\) takes exactly one argument") as info:
        taxpr.trace(wrong)(X)
    assert not isinstance(info.value, taxpr.TaxprError)
    with pytest.raises(TypeError, match=r"^len\(\) takes") as info:
        taxpr.flow(f, step=wrong)(X)
    assert not isinstance(info.value, taxpr.TaxprError)


def test_what_is_traced_is_no_choice():
    """A value that `jax.jit` traces, where a Python value is expected."""
    for use, message in [
        (lambda n: taxpr.var("x", occurrence=n), "occurrence=.* is no number"),
        (lambda n: taxpr.trace(f, static_argnums=n), "static_argnums=.* are no numbers"),
        (lambda n: taxpr.each(axis=n), "axis=.* is no number of an axis"),
        (lambda n: taxpr.collect(f, stack=n > 0)(X), r"stack=.* Give True or False"),
        (lambda n: REC["h"].at(n), "occurrence .*: h has 1 value"),
        (lambda n: P.tags(n), "is a value that is being traced"),
    ]:
        with pytest.raises(taxpr.TaxprError, match=message):
            jax.jit(use)(1)


def test_static_arguments_that_are_there():
    def g(x, n=2, *more, **words):
        return x * n + sum(more) + sum(words.values())

    for static in (
        {"static_argnums": 1},
        {"static_argnums": (1, 5)},
        {"static_argnums": -1},
        {"static_argnames": "n"},
        {"static_argnames": ["n", "anything"]},
    ):
        assert taxpr.trace(g, **static)(X, 2)(X).shape == (3,)
