"""Products that XLA for GPUs merges: each counts, and each has a part of the time.

The HLO is written by hand as XLA for GPUs writes it: the operands `a` and `b` joined, one product,
and two slices of it.
"""

import dataclasses

import jax.numpy as jnp
import pytest

import taxpr
from taxpr._compiled.compile_call import compile_call
from taxpr._kernels.kernels import Kernels
from taxpr._profile.work import Work

HEAD = """HloModule jit_f, is_scheduled=true

%joined (p.0: f32[32,16], p.1: f32[32,48]) -> f32[32,64] {
  %p.0 = f32[32,16]{1,0} parameter(0)
  %p.1 = f32[32,48]{1,0} parameter(1)
  ROOT %joined.0 = f32[32,64]{1,0} concatenate(%p.0, %p.1), dimensions={1}
}

ENTRY %main (x.1: f32[64,32], a.1: f32[32,16], b.1: f32[32,48]) -> (f32[64,16], f32[64,48]) {
  %x.1 = f32[64,32]{1,0} parameter(0), metadata={op_name="flat[0]"}
  %a.1 = f32[32,16]{1,0} parameter(1), metadata={op_name="flat[1]"}
  %b.1 = f32[32,48]{1,0} parameter(2), metadata={op_name="flat[2]"}
"""
MERGED = (
    HEAD
    + """  %both = f32[32,64]{1,0} fusion(%a.1, %b.1), kind=kLoop, calls=%joined
  %gemm = (f32[64,64]{1,0}, s8[4096]{0}) custom-call(%x.1, %both), custom_call_target="gemm", @0
  %product = f32[64,64]{1,0} get-tuple-element(%gemm), index=0
  %first = f32[64,16]{1,0} slice(%product), slice={[0:64], [0:16]}
  %second = f32[64,48]{1,0} slice(%product), slice={[0:64], [16:64]}
  ROOT %out = (f32[64,16]{1,0}, f32[64,48]{1,0}) tuple(%first, %second)
}
"""
)
APART = (
    HEAD
    + """  %first = f32[64,16]{1,0} custom-call(%x.1, %a.1), custom_call_target="gemm", @0
  %second = f32[64,48]{1,0} custom-call(%x.1, %b.1), custom_call_target="gemm", @1
  ROOT %out = (f32[64,16]{1,0}, f32[64,48]{1,0}) tuple(%first, %second)
}
"""
)


@dataclasses.dataclass
class Written:
    text: str

    def as_text(self):
        return self.text


def both(x, a, b):
    narrow = x @ a
    wide = x @ b
    return narrow, wide


def of_text(text):
    args = jnp.ones((64, 32)), jnp.ones((32, 16)), jnp.ones((32, 48))
    for number in range(2):
        name = f'metadata={{op_name="jit(f)/taxpr.{number}./dot_general"}}'
        text = text.replace(f"@{number}", name)
    return dataclasses.replace(compile_call(both, args, {}), executable=Written(text))


@pytest.mark.parametrize("text", [MERGED, APART], ids=["merged", "apart"])
def test_each_product_counts_once(text):
    call = of_text(text)
    kernels = Kernels(call).every
    work = Work(call, kernels)
    each = {one.instruction.name: sum(work.of(one).flops.values()) for one in kernels}
    wanted = 2 * 64 * 32 * 16, 2 * 64 * 32 * 48
    if text is MERGED:
        assert each == {"both": 0, "gemm": sum(wanted), "first": 0, "second": 0}
    else:
        assert each == dict(zip(("first", "second"), wanted, strict=True))


def test_a_merged_product_is_of_both_statements():
    [gemm] = [one for one in Kernels(of_text(MERGED)).every if one.instruction.name == "gemm"]
    assert [one.code for one in gemm.statements] == ["narrow = x @ a", "wide = x @ b"]
    assert gemm.equations == ("0:dot_general", "1:dot_general")


def test_a_product_of_another_size_is_not_taken_for_a_merged_one():
    call = of_text(MERGED.replace("(f32[64,64]{1,0}, s8", "(f32[64,60]{1,0}, s8"))
    work = Work(call, kernels := Kernels(call).every)
    assert sum(sum(work.of(one).flops.values()) for one in kernels) == 2 * 64 * 32 * 16


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_product_in_a_wider_type_computes_no_other_one(dtype):
    def one(x, a, b):
        used = x @ a
        unused = x @ b
        del unused
        return used

    args = [jnp.ones((16, 16), dtype)] * 3
    rows = taxpr.compiled(one)(*args).rows
    assert {at for row in rows for at in row.equations} == {"0:dot_general"}
