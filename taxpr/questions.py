"""The questions that one asks of a function, and the types of their answers."""

from taxpr._answers.answer import Answer
from taxpr._answers.portions import Portion
from taxpr._check.check import check
from taxpr._compilations.log import (
    CompileLog,
    Compiles,
    WhyCompiled,
    compiles,
    why_compiled,
)
from taxpr._compilations.recorder import CompileRow
from taxpr._compilations.stale import StaleRow
from taxpr._compile_time.compile_time import compile_time
from taxpr._compile_time.rows import CompileTime, CompileTimeRow, ConstantRow, UnrolledRow
from taxpr._derivatives.check_grad import check_grad
from taxpr._derivatives.rows import GradCheck, GradRow
from taxpr._differences.difference import first_difference
from taxpr._keeping.watch import watch
from taxpr._kernels.changes import ChangeRow, CompiledChanges
from taxpr._kernels.collectives import CollectiveRow, Collectives
from taxpr._kernels.compiled import compiled
from taxpr._kernels.compiled_answer import Compiled, KernelRow, RemovedRow, load_compiled
from taxpr._kernels.shardings import ShardingRow, Shardings
from taxpr._memory.held import MemoryRow
from taxpr._memory.memory import memory
from taxpr._memory.memory_use import MemoryStep, MemoryUse, Residuals
from taxpr._memory.what_if_rows import WhatIf, WhatIfRow
from taxpr._profile.profile import profile
from taxpr._profile.profile_rows import (
    FunctionTimeRow,
    KernelTime,
    Profile,
    ProfileByFunction,
    ProfileRow,
)
from taxpr._questions.find_nan import NanFound, NanRow, find_nan
from taxpr._questions.flow import Flow, FlowRow, flow
from taxpr._recordings.recorded import Recorded
from taxpr._recordings.recording import Recording, load_recording
from taxpr._recordings.summary import Stats, array_stats
from taxpr._summary.summarize import summary
from taxpr._summary.summary_rows import Summary, SummaryRow
from taxpr._sweep.patch import patch
from taxpr._sweep.sweep import sweep
from taxpr._training.every import EveryStep, every

__all__ = [
    "Answer",
    "ChangeRow",
    "CollectiveRow",
    "Collectives",
    "CompileLog",
    "CompileRow",
    "CompileTime",
    "CompileTimeRow",
    "Compiled",
    "CompiledChanges",
    "Compiles",
    "ConstantRow",
    "EveryStep",
    "Flow",
    "FlowRow",
    "FunctionTimeRow",
    "GradCheck",
    "GradRow",
    "KernelRow",
    "KernelTime",
    "MemoryRow",
    "MemoryStep",
    "MemoryUse",
    "NanFound",
    "NanRow",
    "Portion",
    "Profile",
    "ProfileByFunction",
    "ProfileRow",
    "Recorded",
    "Recording",
    "RemovedRow",
    "Residuals",
    "ShardingRow",
    "Shardings",
    "StaleRow",
    "Stats",
    "Summary",
    "SummaryRow",
    "UnrolledRow",
    "WhatIf",
    "WhatIfRow",
    "WhyCompiled",
    "array_stats",
    "check",
    "check_grad",
    "compile_time",
    "compiled",
    "compiles",
    "every",
    "find_nan",
    "first_difference",
    "flow",
    "load_compiled",
    "load_recording",
    "memory",
    "patch",
    "profile",
    "summary",
    "sweep",
    "watch",
    "why_compiled",
]
