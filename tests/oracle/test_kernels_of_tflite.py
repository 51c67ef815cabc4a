"""What docs/export.md says of TFLite's optimized kernels: given equal inputs, one step at most."""

import numpy as np
import pytest

from mcutrain.demo import MODEL
from mcutrain.oracle.tflite import find_interpreter
from tests.formats.oracle import needs_interpreter

pytestmark = [pytest.mark.oracle, needs_interpreter]

SAMPLES = 8
STEP = 1
ROUNDED_SUMS = {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"}


def interpreter(kernels):
    module = find_interpreter().module
    loaded = module.Interpreter(
        model_path=str(MODEL),
        experimental_op_resolver_type=module.OpResolverType[kernels],
        experimental_preserve_all_tensors=True,
    )
    loaded.allocate_tensors()
    return loaded


def difference(pair, tensors):
    found = [[loaded.get_tensor(t).astype(int) for t in tensors if t >= 0] for loaded in pair]
    return max(int(np.abs(a - b).max(initial=0)) for a, b in zip(*found, strict=True))


@pytest.mark.filterwarnings("ignore:.*experimental_preserve_all_tensors")
def test_an_optimized_kernel_leaves_the_reference_by_one_step_and_only_where_sums_are_rounded():
    pair = [interpreter(k) for k in ("BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES")]
    compared, left = set(), set()
    for x in np.random.default_rng(0).integers(-128, 128, (SAMPLES, 1, 28, 28, 1)).astype(np.int8):
        for loaded in pair:
            loaded.set_tensor(loaded.get_input_details()[0]["index"], x)
            loaded.invoke()
        for operator in pair[1]._get_ops_details():
            if difference(pair, operator["inputs"]) == 0:
                compared.add(operator["op_name"])
                found = difference(pair, operator["outputs"])
                assert found <= STEP
                left |= {operator["op_name"]} if found else set()
    assert "CONV_2D" in compared
    assert left <= ROUNDED_SUMS
