"""The truth of the account: what each part costs, from the cycles of kernels that were built
without it.

Parts overlap: without copies, a barrier costs less. Their common time is shared out by the Shapley
value, the mean over all orders in which the parts can be taken away, so that the shares sum to what
vanishes when all are gone (L. S. Shapley, "A value for n-person games", 1953). A wait has to go
before its copy, as nothing waits for a copy that is not made: the mean is over the orders in which
it does.
"""

from __future__ import annotations

CYCLES = "sm__cycles_elapsed.max"
BUSY = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
PRODUCTS = (
    "sm__inst_executed_pipe_tensor_op_gmma.sum",
    "sm__inst_executed_pipe_tensor_op_hmma.sum",
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
)
"""The products of a launch, of which every variant must have as many: the first that is not 0."""
