"""What instruction_model.py tries to explain each kernel function's instructions with.

Features as mcutrain.cost.instructions reads them: products of what a node's call and types say.
They follow the loops of the bodies in firmware/kernels, plain, portable, dsp, helium and armv6m;
the fit leaves out those that explain nothing. A function that is missing here gets OTHER.
"""

from __future__ import annotations

from mcutrain.update_rules import RULES, SGD

OTHER = ("1", "macs", "inputs", "outputs")
TAPS = "window.kernel_h*window.kernel_w"
WIDE = "window.kernel_h>1"  # a window that is no point
STRIDED = "window.stride_h>1"

ELEMENTS = ("1", "elements", "elements*operand.2", "elements*operand.3")
RESCALED = tuple(
    f"positions*channels_out{part}"
    for part in ("", "/4", "*channels_out%4>0", "*operand.4", "*operand.6", "*a.per_channel")
)
POOLED_BACK = (
    "1", "dx.pixels", "dx.pixels*dx.c", "taps", "taps*dx.c", f"dx.pixels*{TAPS}",
    "dx.pixels*dx.c*operand.4", "dx.pixels*dx.c*operand.5", f"taps*dx.c*{TAPS}",
    "dx.pixels*dx.c*stage.per_channel",
)  # fmt: skip
POOLED = ("1", "y.pixels", "y.pixels*y.c", "taps*y.c", "y.pixels*y.c*operand.2")
PADDED = (
    "1", "y.pixels*y.c", "x.pixels*x.c", "x.h", "x.pixels*x.c*y.c%4>0", "x.pixels*pad_channels>0",
)  # fmt: skip
RESIZED = ("1", "y.h", "y.pixels", "y.pixels*y.c")
RESIZED_BACK = (
    "1", "dx.pixels", "dx.pixels*dx.c", "dy.pixels", "dy.pixels*dy.c", "dx.pixels*dx.c*operand.3",
    "dy.pixels*row_unit%1024>0", "dy.pixels*dy.c*row_unit%1024>0",
    "dx.pixels*dx.c*stage.per_channel",
)  # fmt: skip
CUT = (
    "1", "rows", "rows*columns", "rows*columns*channels", "rows*columns*channels*channel_stride>1",
)  # fmt: skip
UNALIGNED = ("channels", "column_stride", "row_stride", "row_elements", "skipped")
UPDATED = (
    "1", "rows", "rows*columns", "rows*columns*parameter.residual_bits=8",
    "rows*columns*parameter.residual_bits=4", "rows*columns*rows_per_rate=0",
)  # fmt: skip


def by_rule(*counts: str) -> tuple[str, ...]:
    """The counts, each of them times each rule of updates besides SGD."""
    rules = [f"rule.direct.mct_{name}" for name in RULES if name != SGD]
    return tuple("*".join((count, rule)) for count in counts for rule in rules)


CONV_ADAPTED = (
    "1", "dy.pixels*dy.c", "taps*dy.c", "taps*x.c*dy.c", f"dy.pixels*dy.c*{TAPS}",
    *by_rule("dy.c", f"dy.c*x.c*{TAPS}"),
)  # fmt: skip
DEPTHWISE_ADAPTED = (
    "1", "taps*trained_channels", f"dy.pixels*{TAPS}*trained_channels",
    *by_rule("trained_channels", f"{TAPS}*trained_channels"),
)  # fmt: skip
BIAS_ADAPTED = ("1", "positions*channels_out", *by_rule("channels_out"))
APPLIED = (
    "1", "rows", *by_rule("rows", "rows*columns", "rows*columns*rows_per_rate=0"),
)  # fmt: skip
APPLIED_BIASES = ("1", *by_rule("columns"))

MULTIPLIED = ("1", "macs", "outputs", "matrices*rows")
PLACED = ("1", "positions", "positions*channels")
MOVED = (
    "1", "length_0*length_1*length_2", "length_0*length_1", "outputs",
)  # fmt: skip

BOTH = {
    "mct_add_s8": ELEMENTS,
    "mct_squared_difference_s8": ELEMENTS,
    "mct_div_s8": ELEMENTS,
    "mct_rescale_s8": ELEMENTS,
    "mct_leaky_relu_s8": ELEMENTS,
    "mct_leaky_relu_grad_input_s8": ("1", "positions", "positions*channels", "inputs"),
    "mct_leaky_relu_grad_input_s16": ("1", "positions", "positions*channels", "inputs"),
    "mct_lookup_s8": ("1", "elements"),
    "mct_mul_s8": (*PLACED, "positions*channels*operand.3"),
    "mct_batch_matmul_s8": (*MULTIPLIED, "outputs*operand.3"),
    "mct_add_channels_s8": (*PLACED, "positions*channels*operand.3"),
    "mct_concatenation_s8": ("1", "outer", "outputs"),
    "mct_transpose_s8": MOVED,
    "mct_transpose_s16": MOVED,
    "mct_conv_2d_adapt_weight_s8": CONV_ADAPTED,
    "mct_grouped_conv_2d_adapt_weight_s8": CONV_ADAPTED,
    "mct_depthwise_conv_2d_adapt_weight_s8": DEPTHWISE_ADAPTED,
    "mct_bias_adapt_s8": BIAS_ADAPTED,
    "mct_bias_adapt_difference_s8": BIAS_ADAPTED,
    "mct_apply_adapt_s8": APPLIED,
    "mct_apply_adapt_s32": APPLIED_BIASES,
    "mct_apply_adapt_s16": APPLIED_BIASES,
    "mct_apply_update_s8": UPDATED,
    "mct_apply_update_s32": UPDATED,
    "mct_apply_update_s16": UPDATED,
    "mct_add_difference_s32": ("1", "channels"),
    "mct_average_pool_2d_s8": POOLED,
    "mct_scaled_average_pool_2d_s8": POOLED,
    "mct_max_pool_2d_s8": POOLED,
    "mct_average_pool_2d_grad_input_s8": POOLED_BACK,
    "mct_average_pool_2d_grad_input_s16": POOLED_BACK,
    "mct_max_pool_2d_grad_input_s8": POOLED_BACK,
    "mct_max_pool_2d_grad_input_s16": POOLED_BACK,
    "mct_layer_norm_s8": ("1", "rows", "rows*channels", "rows*channels*operand.4"),
    "mct_mean_s8": ("1", "x.pixels*x.c", "x.c", "x.h*x.c"),
    "mct_mean_s32": ("1", "x.pixels*x.c", "x.c"),
    "mct_pad_s8": PADDED,
    "mct_resize_nearest_s8": RESIZED,
    "mct_resize_bilinear_s8": RESIZED,
    "mct_resize_grad_input_s8": RESIZED_BACK,
    "mct_resize_grad_input_s16": RESIZED_BACK,
    "mct_slice_s8": (*CUT, *(f"rows*columns*channels*{n}%4>0" for n in UNALIGNED)),
    "mct_slice_grad_input_s8": (*CUT, "elements"),
    "mct_slice_grad_input_s16": (*CUT, "elements"),
    "mct_merge_columns_s8": (
        "1",
        "rows",
        "rows*columns",
        "rows*channels",
        "rows*trained_columns*channels=0",
        "rows*trained_columns/16*channels=0",
        "rows*trained_columns*trained_columns%4>0*channels=0",
        "rows*channels=0",
    ),
    "mct_select_channels_s8": (
        "1",
        "positions",
        "positions*channels",
        "positions*y_channels*channels=0",
        "positions*y_channels/16*channels=0",
        "positions*y_channels*y_channels%4>0*channels=0",
        "positions*channels=0",
    ),
    "mct_embedding_s8": ("1", "count", "count*width", "count*width%4>0"),
    "mct_softmax_s8": ("1", "rows", "rows*classes"),
    "mct_softmax_cross_entropy_s8": ("1", "classes"),
    "mct_softmax_cross_entropy_s16": ("1", "classes"),
    "mct_binary_cross_entropy_s8": ("1",),
    "mct_binary_cross_entropy_s16": ("1",),
    "mct_position_cross_entropy_s8": ("1", "positions", "positions*position.classes"),
    "mct_position_cross_entropy_s16": ("1", "positions", "positions*position.classes"),
    "mct_weighted_cross_entropy_s8": ("1", "sample.classes"),
    "mct_weighted_cross_entropy_s16": ("1", "sample.classes"),
    "mct_distilled_cross_entropy_s8": ("1", "sample.classes"),
    "mct_distilled_cross_entropy_s16": ("1", "sample.classes"),
    "mct_sigmoid_cross_entropy_s8": ("1", "positions*output.classes"),
    "mct_sigmoid_cross_entropy_s16": ("1", "positions*output.classes"),
    "mct_mean_squared_error_s8": ("1", "positions", "positions*channels"),
    "mct_mean_squared_error_s16": ("1", "positions", "positions*channels"),
    "mct_target_error_s8": ("1", "positions*channels"),
    "mct_target_error_s16": ("1", "positions*channels"),
    "mct_label_part_s16": ("1", "count"),
    "mct_label_part_s32": ("1", "count"),
    "mct_label_part_u8": ("1", "count"),
    "mct_loss_sum_s32": ("1", "count"),
    "mct_gru_s8": ("1", "steps*directions*units", "macs"),
    "mct_lstm_s8": ("1", "steps*directions*units", "macs"),
    "mct_gradient_rescale_s8": ("1", "channels_out", *RESCALED),
    "mct_gradient_rescale_s16": ("1", "channels_out", *RESCALED),
    "mct_gradient_add_s8": ("1", "channels_out", *RESCALED),
    "mct_gradient_add_s16": ("1", "channels_out", *RESCALED),
    "mct_conv_2d_s32": ("1", "macs", "y.c", "y.pixels*y.c"),
}
for _type in ("s8", "s16"):
    BOTH |= {
        f"mct_lstm_grad_gates_{_type}": ("1", "layer.steps*layer.units", "macs"),
        f"mct_gru_grad_gates_{_type}": ("1", "layer.steps*layer.units", "macs"),
        f"mct_lookup_grad_input_{_type}": (*PLACED, "positions*channels*operand.4"),
        f"mct_mul_grad_input_{_type}": (*PLACED, "positions*channels*operand.4"),
        f"mct_layer_norm_grad_input_{_type}": (
            "1", "rows", "rows*channels", "rows*channels*operand.5",
        ),
        f"mct_softmax_grad_input_{_type}": (
            "1", "rows", "rows*classes", "rows*classes*operand.4",
        ),
        f"mct_mul_grad_channels_{_type}": (*PLACED, "channels"),
        f"mct_batch_matmul_grad_input_{_type}": (
            *MULTIPLIED, "outputs*operand.4", "outputs*stage.per_channel",
        ),
        f"mct_add_channels_grad_input_{_type}": (*PLACED, "channels"),
        f"mct_concatenation_grad_input_{_type}": (
            "1", "outer", "outputs", "outer*dx_elements", "outer*dx_elements*operand.3",
        ),
    }  # fmt: skip
for _kind in (
    *("update_gamma_s8", "update_gamma_difference_s8", "grad_gamma_s8"),
    *("update_gamma_s16", "update_gamma_difference_s16", "grad_gamma_s16"),
    *("adapt_gamma_s8", "adapt_gamma_difference_s8"),
):
    BOTH[f"mct_layer_norm_{_kind}"] = ("1", "rows", "channels", "rows*channels")
for _kind in ("update", "update_difference", "grad"):
    for _type in ("s8", "s16"):
        BOTH[f"mct_bias_{_kind}_{_type}"] = (
            "1", "channels_out", "channels_out/4", "positions*channels_out/4",
            "positions*channels_out", "positions*channels_out%4",
        )  # fmt: skip

# ------------------------------------------------------------------------------------- plain bodies

Y, DX = "y.pixels*y.c", "dx.pixels*dx.c"
PLAIN_CONV_BACK = (
    "1", "taps*dx.c*dy.c", "taps*dx.c", "taps*dy.c", "taps", DX, "dx.pixels",
    f"{DX}*operand.6", f"{DX}*operand.4", f"dx.pixels*{TAPS}",
)  # fmt: skip
PLAIN_CONV_WEIGHT = (
    "1", "dy.c", "taps*x.c*dy.c", "taps*dy.c", f"dy.pixels*dy.c*{TAPS}", "dy.pixels*dy.c",
    f"dy.c*x.c*{TAPS}", f"dy.c*x.c*{TAPS}*parameter.residual_bits=4",
    f"dy.c*x.c*{TAPS}*parameter.residual_bits=8",
)  # fmt: skip
PLAIN_DEPTHWISE_BACK = (
    "1", "taps*dy.c", "taps", DX, f"{DX}*operand.5", f"dx.pixels*{TAPS}", f"taps*dy.c*{WIDE}",
)  # fmt: skip
GROUPED = (
    "1", Y, "macs", "taps*y.c", f"{Y}*operand.4", f"{Y}*{TAPS}", f"{Y}*requantize.shift.rare",
)  # fmt: skip
GROUPED_BACK = (
    "1", "macs", "taps*dy.c", "taps*groups", "taps", DX, "dx.pixels", f"{DX}*operand.4",
    f"dx.pixels*{TAPS}", f"{DX}*stage.per_channel",
)  # fmt: skip
GROUPED_WEIGHT = (
    "1", "dy.c", "macs", "taps*dy.c", f"dy.pixels*dy.c*{TAPS}", "dy.pixels*dy.c",
    "outputs", "outputs*parameter.residual_bits=4", "outputs*parameter.residual_bits=8",
)  # fmt: skip
PLAIN_DEPTHWISE_WEIGHT = (
    "1", "taps*trained_channels", f"{TAPS}*trained_channels", f"dy.pixels*{TAPS}",
    f"{TAPS}*trained_channels*parameter.residual_bits=4", "taps*x_columns/4", "taps*channels/4",
    "taps", f"{TAPS}*trained_channels*parameter.residual_bits=8",
)  # fmt: skip

PLAIN = {
    "mct_grouped_conv_2d_s8": GROUPED,
    "mct_conv_2d_grad_input_s16": PLAIN_CONV_BACK,
    "mct_depthwise_conv_2d_grad_input_s16": PLAIN_DEPTHWISE_BACK,
}
for _type in ("s8", "s16"):
    PLAIN[f"mct_grouped_conv_2d_grad_input_{_type}"] = GROUPED_BACK
for _kind in ("update", "grad"):
    PLAIN[f"mct_conv_2d_{_kind}_weight_s16"] = PLAIN_CONV_WEIGHT
    PLAIN[f"mct_depthwise_conv_2d_{_kind}_weight_s16"] = PLAIN_DEPTHWISE_WEIGHT
    for _type in ("s8", "s16"):
        PLAIN[f"mct_grouped_conv_2d_{_kind}_weight_{_type}"] = GROUPED_WEIGHT

# ---------------------------------------------------------------------------------- portable bodies

GENERAL = ("multiplier>1", "window.dilation_h>1", "window.kernel_h>7")  # what has no short way
TILED_CONV = (
    "1", Y, "taps*x.c*y.c", "y.c", "y.c*depth", f"{Y}*operand.4", f"{Y}*requantize.rounds_once",
    f"{Y}*requantize.shift.rare", "y.c*depth*trained.rows>0",
    f"taps*x.c*y.c*{WIDE}", f"{Y}*{WIDE}", f"{Y}*window.kernel_h*{WIDE}",  # rows of the window
    f"y.h*y.c*{WIDE}", f"y.h*y.c*depth*{WIDE}", f"y.w*y.c*depth*{WIDE}", f"y.w*y.c*{WIDE}",
    f"{Y}*{STRIDED}", f"taps*x.c*y.c*{STRIDED}",
    "y.c*y.pixels%4", "y.c*depth*y.pixels%4", "y.c*depth*y.pixels=1", f"{Y}*depth*y.c%2",
    *(f"{part}*window.dilation_h>1" for part in (Y, "taps*x.c*y.c", f"{Y}*{TAPS}")),
)  # fmt: skip
TILED_CONV_BACK = (
    "1", "taps*dx.c*dy.c", "taps*dx.c", DX, "dx.c", f"{DX}*operand.6", f"{DX}*operand.4",
    "dx.c*dx.pixels%4", "dx.c*dy.c*dx.pixels%4", "dx.pixels*dy.c*dx.c%2",
    f"dx.c*dy.c*{TAPS}*trained.columns>0", f"taps*dx.c*dy.c*{WIDE}", f"{DX}*{WIDE}",
    f"taps*dx.c*dy.c*{STRIDED}", f"{DX}*{STRIDED}", "dx.c*dy.c*dx.pixels=1",
    f"{DX}*window.dilation_h>1", f"{DX}*{TAPS}*window.dilation_h>1",
)  # fmt: skip
TILED_CONV_WEIGHT = (
    *PLAIN_CONV_WEIGHT, "taps*dy.c*x.c/4", "taps*dy.c*x.c%4", f"dy.c*dy.h*{TAPS}", f"dy.c*{TAPS}",
)  # fmt: skip
# what is multiplied where there is one output position, and otherwise added up
TILED_CONV_UPDATE = (
    "1", "dy.c", f"dy.c*x.c*{TAPS}*dy.pixels=1",
    *(f"{name}*dy.pixels>1" for name in TILED_CONV_WEIGHT[1:]),
)  # fmt: skip
FOURS = "y.pixels*y.c/4"  # four channels at a position
TILED_DEPTHWISE = (
    "1", "y.c", f"y.c*{TAPS}", Y, f"{Y}*operand.4", "taps*y.c", FOURS, f"{FOURS}*window.kernel_h",
    "taps*y.c/4", "y.h*y.c/4", f"{Y}*requantize.rounds_once", f"{Y}*requantize.shift.rare",
    "y.pixels*y.c%4", "taps*y.c%4", f"y.pixels*{TAPS}*y.c%4", f"y.w*y.c*{TAPS}",
    f"y.h*y.c*{TAPS}",
    *(f"{part}*{rare}" for rare in GENERAL[:2] for part in (Y, "taps*y.c", f"{Y}*{TAPS}")),
)  # fmt: skip
BACK_FOURS = "dx.pixels*dx.c/4"
TILED_DEPTHWISE_BACK = (
    "1", "taps*dy.c", "taps*dy.c/4", DX, f"{DX}*operand.5", "dx.c", BACK_FOURS, "dx.h*dx.c/4",
    f"{BACK_FOURS}*window.kernel_h", f"{BACK_FOURS}*{STRIDED}", f"taps*dy.c*{STRIDED}",
    "dx.pixels*dx.c%4", "taps*dx.c%4",
    *(f"{part}*{rare}" for rare in GENERAL[:2] for part in (DX, "taps*dy.c", f"{DX}*{TAPS}")),
)  # fmt: skip
TILED_DEPTHWISE_WEIGHT = (
    *PLAIN_DEPTHWISE_WEIGHT, TAPS, f"{TAPS}*trained_channels/4",
    f"dy.h*{TAPS}*trained_channels/4", f"dy.h*{TAPS}*trained_channels%4",
    "taps*trained_channels%4", f"{TAPS}*trained_channels*channels>0",
    "taps*trained_channels*channels>0", "taps*trained_channels*x_columns>0",
    f"dy.h*{TAPS}*channels", f"dy.h*{TAPS}*x_columns",
)  # fmt: skip

PORTABLE = PLAIN | {
    "mct_conv_2d_s8": TILED_CONV,
    "mct_conv_2d_grad_input_s8": TILED_CONV_BACK,
    "mct_conv_2d_update_weight_s8": TILED_CONV_UPDATE,
    "mct_conv_2d_grad_weight_s8": TILED_CONV_WEIGHT,
    "mct_depthwise_conv_2d_s8": TILED_DEPTHWISE,
    "mct_depthwise_conv_2d_grad_input_s8": TILED_DEPTHWISE_BACK,
    "mct_depthwise_conv_2d_update_weight_s8": TILED_DEPTHWISE_WEIGHT,
    "mct_depthwise_conv_2d_grad_weight_s8": TILED_DEPTHWISE_WEIGHT,
}

# -------------------------------------------------------------------------------------- DSP bodies

POINTS, BLOCKS = "y.pixels/4*y.c", "y.pixels/4*y.c/24"  # four positions; 24 channels
DSP_CONV = (
    "1", "y.c", "y.c/24", f"{POINTS}*depth/4", f"{POINTS}*depth/16", POINTS,
    f"{BLOCKS}*depth/4", BLOCKS,  # the panel
    f"{POINTS}*operand.4", f"{POINTS}*operand.4*y.c%8>0", f"{POINTS}*depth/4*operand.4*y.c%8>0",
    f"{BLOCKS}*depth/4*{WIDE}", f"{BLOCKS}*{WIDE}", f"{BLOCKS}*window.kernel_h*{WIDE}",
    f"{BLOCKS}*depth/32*{WIDE}", f"{BLOCKS}*x.c=1*{TAPS}", f"{BLOCKS}*x.c%4*{TAPS}",
    f"{BLOCKS}*depth/4*{STRIDED}*window.kernel_h=1", f"{BLOCKS}*{STRIDED}*window.kernel_h=1",
    f"{POINTS}*depth>144", f"{POINTS}*depth/144*depth>144", f"{Y}*depth>144",
    f"{Y}*requantize.shift.rare", f"{Y}*requantize.rounds_once", f"{Y}*requantize.low>-128",
    f"{Y}*y.pixels%4", "y.c*depth*trained.rows>0",
    f"{Y}*depth/4", "y.c*depth/4*y.pixels%4>1", "y.c*depth/4*y.pixels%4=1",  # a position left
    "y.c*depth/4*y.pixels=1", "y.c*y.pixels=1", "depth/4*y.pixels=1",  # a fully connected layer
    "y.c*requantize.rounds_once*y.pixels=1",
)  # fmt: skip
QUADS = "dx.pixels*dx.c/4"
DSP_CONV_BACK = (
    "1", "dx.c", f"{QUADS}*dy.c/4*{TAPS}", f"{QUADS}*dy.c/128*{TAPS}", DX, f"{DX}*dx.c%4>0",
    f"{DX}*operand.6", f"{DX}*operand.4", f"{DX}*operand.6*stage.per_channel",
    f"dx.pixels/64*dx.c/4*dy.c/4*{TAPS}", "dx.pixels/64*dx.c/4", f"{QUADS}*{TAPS}*{WIDE}",
    f"{QUADS}*dy.c/16*{TAPS}*{WIDE}", f"{QUADS}*dy.c/4*{TAPS}*{WIDE}", f"{QUADS}*{TAPS}*{STRIDED}",
    f"{QUADS}*{STRIDED}*window.kernel_h=1",
    f"taps*dx.c/4*dy.c/4*{WIDE}", f"taps*dx.c/4*dy.c/4*{STRIDED}",
    f"{QUADS}*dy.c/4*window.stride_h=1*window.kernel_h=1",
    f"{QUADS}*dy.c/16*window.stride_h=1*window.kernel_h=1",
)  # fmt: skip
ROWS = f"x.c/4*{TAPS}"
DSP_CONV_WEIGHT = (
    "1", f"dy.pixels/4*dy.c*{ROWS}", f"dy.pixels/64*dy.c*{ROWS}", f"dy.c*{ROWS}",
    f"dy.c*x.c*{TAPS}", f"dy.c*x.c*{TAPS}*parameter.residual_bits=4",
    f"dy.c*x.c*{TAPS}*parameter.residual_bits=8", f"dy.c*x.c*{TAPS}*parameter.per_channel",
    f"dy.c/16*{ROWS}", f"dy.c/16*dy.pixels/4*{ROWS}", f"dy.c/16*dy.pixels*{ROWS}",
    f"dy.c/16*dy.pixels*{ROWS}*{WIDE}", f"dy.c/16*dy.pixels*{ROWS}*x.c%4>0",
    f"dy.pixels%4>0*dy.c/16*{ROWS}", f"dy.c/16*dy.pixels/64*{ROWS}", "dy.pixels*dy.c",
    f"dy.pixels*dy.c/4*dy.pixels>64*{ROWS}",  # dy is turned again for each tap
    f"dy.c*{TAPS}*x.c%4>0",
)  # fmt: skip
DSP_CONV_UPDATE = (
    "1", "dy.c", f"dy.c*x.c*{TAPS}*dy.pixels=1",
    *(f"{name}*dy.pixels>1" for name in DSP_CONV_WEIGHT[1:]),
)  # fmt: skip
DSP_CONV_WEIGHT_S16 = (
    *(name.replace("dy.c/16", "dy.c/8") for name in DSP_CONV_WEIGHT),
    *(f"{name}*dy.pixels>32" for name in (f"dy.c/8*{ROWS}", f"dy.c/8*dy.pixels*{ROWS}")),
    f"dy.c*x.c*{TAPS}*dy.pixels>256", f"dy.c*{ROWS}*dy.pixels/256",
)  # fmt: skip
DSP_CONV_UPDATE_S16 = (
    "1", "dy.c", f"dy.c*x.c*{TAPS}*dy.pixels=1",
    *(f"{name}*dy.pixels>1" for name in DSP_CONV_WEIGHT_S16[1:]),
)  # fmt: skip
ROW, GROUPS = "y.h*y.c", "y.h*y.w/4*y.c"
DSP_DEPTHWISE = (
    "1", "y.c", ROW, f"{ROW}*window.kernel_h", GROUPS, f"{GROUPS}*window.kernel_h",
    f"{GROUPS}*{TAPS}", f"{GROUPS}*{STRIDED}*window.kernel_h=3",
    f"{GROUPS}*y.w%4>0", f"{GROUPS}*{TAPS}*y.w%4>0", f"{ROW}*y.w%4>0", f"{ROW}*y.w%4",
    f"{GROUPS}*y.w%4>0*operand.4", f"{Y}*operand.4", f"{ROW}*operand.4",
    f"{GROUPS}*window.kernel_h*y.w%4>0", f"{ROW}*y.w/32",
    "x.pixels*x.c", "x.h*x.c", "x.h*x.c*window.kernel_w", f"x.pixels*x.c*{STRIDED}",
    "y.h*y.w/8*y.c*window.kernel_h>6", "x.h*x.c*y.w/8*window.kernel_h>6",
    f"{GROUPS}*window.kernel_h>6*{STRIDED}", f"{Y}*requantize.low>-128",
    f"{Y}*requantize.shift.rare",
    *(f"{part}*{rare}" for rare in GENERAL for part in (Y, "taps*y.c", f"{Y}*{TAPS}")),
)  # fmt: skip
DSP_DEPTHWISE_BACK = (
    "1", "macs", "dx.c", DX, f"{DX}*operand.5", f"{DX}*{TAPS}", "dx.h*dx.c",
    "dx.h*dx.w/8*dx.c", "dx.h*dx.w/8*dx.c*window.kernel_h", f"dx.w/8*dx.c*{TAPS}",
    f"{DX}*{STRIDED}", "dx.h*dx.w/4*dx.c", f"dx.h*dx.w/4*dx.c*{TAPS}",
    "dx.h*dx.w/4*dx.c*window.kernel_h", "dx.h*dx.w/8*dx.c*window.kernel_h>6",
    f"{DX}*stage.per_channel",
    *(f"{part}*{rare}" for rare in GENERAL for part in (DX, "taps*dy.c", f"dx.pixels*{TAPS}")),
)  # fmt: skip

FOUR = "trained_channels/4"  # channels at a time
DSP_DEPTHWISE_WEIGHT = (
    "1", "trained_channels", f"{TAPS}*trained_channels", f"{FOUR}*dy.pixels", f"{FOUR}*dy.h",
    f"{FOUR}*x.pixels", f"{FOUR}*x.h", f"taps*{FOUR}", f"{FOUR}*dy.pixels/8*{TAPS}",
    f"{FOUR}*dy.pixels/64", f"{FOUR}*dy.pixels/64*window.kernel_h", f"{FOUR}*window.kernel_h",
    f"{FOUR}*{STRIDED}", f"taps*{FOUR}*{STRIDED}", f"{FOUR}*window.kernel_h>6",
    f"taps*{FOUR}*window.kernel_h>6", "taps*trained_channels*trained_channels%4>0",
    "taps*trained_channels*channels>0", "taps*trained_channels*window.dilation_h>1",
    f"{TAPS}*trained_channels*parameter.residual_bits=4",
    f"{TAPS}*trained_channels*parameter.residual_bits=8",
)  # fmt: skip

PANELS = "y.pixels/4*groups"
DSP_GROUPED = (
    "1", "y.c", "groups", f"{POINTS}*depth/4", POINTS, f"{PANELS}*depth/4", PANELS,
    f"{PANELS}*{TAPS}", f"{PANELS}*{WIDE}", f"{PANELS}*depth/32*{WIDE}", f"{POINTS}*depth>144",
    f"{Y}*depth>144", f"{POINTS}*operand.4", f"{Y}*requantize.shift.rare", f"{Y}*y.pixels%4",
    f"{Y}*requantize.low>-128", f"{POINTS}*depth%4>0",
)  # fmt: skip
DSP_GROUPED_BACK = (
    "1", "macs", "dx.c", DX, QUADS, f"{QUADS}*{TAPS}", f"{DX}*{TAPS}", "taps*dx.c/4", "taps*dx.c",
    f"{DX}*operand.4", f"{DX}*stage.per_channel", f"{QUADS}*groups",
)  # fmt: skip
DSP_GROUPED_WEIGHT = (
    "1", "macs", "dy.pixels*dy.c", "outputs", "groups", f"dy.pixels*x.c*{TAPS}",
    f"dy.pixels*x.c/4*{TAPS}", f"dy.pixels*groups*{TAPS}", f"dy.c*x.c*{TAPS}", f"dy.c*{TAPS}",
    "outputs*parameter.residual_bits=4", "outputs*parameter.residual_bits=8",
    "outputs*parameter.per_channel",
)  # fmt: skip

QUARTERS = "matrices*rows*columns/4"  # four columns at a time
DSP_PRODUCTS = (
    "1", "macs", "outputs", "matrices*rows", QUARTERS, f"{QUARTERS}*depth/4", f"{QUARTERS}*depth/2",
    f"{QUARTERS}*depth%4", "matrices*rows*columns%4", "matrices*rows*columns%4*depth",
)  # fmt: skip

DSP_POOLED = (
    "1", "y.pixels", "taps*y.c/4", "y.pixels*y.c/4", "y.pixels*y.c", "y.pixels*y.c*operand.2",
    "y.pixels*window.kernel_h*y.c/4", "taps*y.c%4",
)  # fmt: skip

DSP = PORTABLE | {  # what is not here are the portable bodies
    "mct_conv_2d_s8": DSP_CONV,
    "mct_conv_2d_s32": (
        "1",
        "y.pixels",
        "y.pixels*y.c",
        "y.pixels*depth/4",
        "y.pixels*depth/32",
        f"{Y}*depth/4",
        "y.pixels*y.c/2*depth/4",
        "y.pixels*depth%4>0",
        "y.pixels*depth/32*depth%4>0",
        f"y.pixels*{WIDE}",
    ),
    "mct_average_pool_2d_s8": DSP_POOLED,
    "mct_scaled_average_pool_2d_s8": DSP_POOLED,
    "mct_mean_s8": ("1", "x.pixels*x.c/4", "x.c", "x.c/4", "x.pixels*x.c%4"),
    "mct_mean_s32": ("1", "x.pixels*x.c/4", "x.c", "x.c/4", "x.pixels*x.c%4"),
    "mct_batch_matmul_s8": (
        *DSP_PRODUCTS,
        "outputs*operand.3",
        f"{QUARTERS}*depth/2*b_column=1",
        f"{QUARTERS}*depth/4*b_depth=1",
    ),
    "mct_batch_matmul_grad_input_s8": (
        *DSP_PRODUCTS,
        "outputs*operand.4",
        "outputs*stage.per_channel",
        f"{QUARTERS}*depth/4*other_depth=1",
    ),
    "mct_conv_2d_grad_input_s8": DSP_CONV_BACK,
    "mct_conv_2d_update_weight_s8": DSP_CONV_UPDATE,
    "mct_conv_2d_grad_weight_s8": DSP_CONV_WEIGHT,
    "mct_conv_2d_update_weight_s16": DSP_CONV_UPDATE_S16,
    "mct_conv_2d_grad_weight_s16": DSP_CONV_WEIGHT_S16,
    "mct_grouped_conv_2d_s8": DSP_GROUPED,
    "mct_grouped_conv_2d_grad_input_s8": DSP_GROUPED_BACK,
    "mct_grouped_conv_2d_update_weight_s8": DSP_GROUPED_WEIGHT,
    "mct_grouped_conv_2d_grad_weight_s8": DSP_GROUPED_WEIGHT,
    "mct_depthwise_conv_2d_s8": DSP_DEPTHWISE,
    "mct_depthwise_conv_2d_grad_input_s8": DSP_DEPTHWISE_BACK,
    "mct_depthwise_conv_2d_update_weight_s8": DSP_DEPTHWISE_WEIGHT,
    "mct_depthwise_conv_2d_grad_weight_s8": DSP_DEPTHWISE_WEIGHT,
}

# ----------------------------------------------------------------------------------- Helium bodies

OUT_QUADS = "y.pixels*y.c/4"
HELIUM_CONV = (
    "1", "y.c/24", "y.c/4", "y.c/4*depth/16", OUT_QUADS, f"{OUT_QUADS}*depth/16",
    f"{OUT_QUADS}*operand.4", f"{Y}*requantize.shift.rare", f"{Y}*requantize.rounds_once",
    "y.pixels*operand.4*y.c%4", "y.pixels*y.c%4", f"{OUT_QUADS}*requantize.low>-128",
    *(f"y.pixels*y.c/24{part}*{WIDE}" for part in ("", "*depth/16", "*window.kernel_h")),
    f"y.pixels*y.c/24*{STRIDED}*window.kernel_h=1", f"{OUT_QUADS}*depth>640",
    "y.c*depth*trained.rows>0",
)  # fmt: skip
HELIUM_CONV_BACK = (
    "1", "dx.c/4", f"dx.c/4*dy.c/8*{TAPS}", f"{QUADS}*{TAPS}", f"{QUADS}*dy.c/16*{TAPS}",
    QUADS, f"{QUADS}*operand.6", f"{QUADS}*operand.4", f"{QUADS}*{TAPS}*{WIDE}",
    "dx.pixels*dx.c%4", f"{QUADS}*dy.c/256*{TAPS}", f"{QUADS}*{STRIDED}*window.kernel_h=1",
    f"taps*dx.c/4*dy.c/16*{WIDE}",
)  # fmt: skip
HELIUM_CONV_WEIGHT = (
    "1", f"dy.pixels/16*dy.c*{ROWS}", f"dy.pixels/64*dy.c*{ROWS}", f"dy.c*{ROWS}",
    f"dy.c*x.c*{TAPS}", f"dy.c*x.c*{TAPS}*parameter.residual_bits=4",
    f"dy.c*x.c*{TAPS}*parameter.residual_bits=8", f"dy.c*x.c*{TAPS}*parameter.per_channel",
    f"dy.c/16*{ROWS}", f"dy.c/16*dy.pixels/8*{ROWS}", f"dy.c/16*dy.pixels*{ROWS}*{WIDE}",
    f"dy.c/16*dy.pixels*{ROWS}*{STRIDED}", "dy.pixels/8*dy.c",
    f"dy.pixels/8*dy.c*dy.pixels>64*{ROWS}",  # dy is turned again for each tap
    f"dy.c*{TAPS}*x.c%4>0",
)  # fmt: skip
SMALL_WINDOWS = tuple(f"*window.kernel_h>{rows}" for rows in (3, 5))
HELIUM_DEPTHWISE = (
    "1", "y.c", f"y.c*{TAPS}", "x.h*x.c", "x.h*x.c*x.w/8", ROW, GROUPS,
    *(f"{GROUPS}{larger}" for larger in SMALL_WINDOWS), f"{GROUPS}*operand.4",
    f"{GROUPS}*operand.4*y.c%8>0", f"{GROUPS}*y.w%4>0", f"{ROW}*y.w%4>0", "y.c*y.h/4",
    f"{Y}*requantize.shift.rare", f"{Y}*requantize.rounds_once",
    *(f"{part}*{rare}" for rare in GENERAL for part in (Y, "taps*y.c", f"{Y}*{TAPS}")),
)  # fmt: skip
BACK_GROUPS = "dx.h*dx.w/4*dx.c"
HELIUM_DEPTHWISE_BACK = (
    "1", "dx.c", f"dx.c*{TAPS}", "dy.h*dy.c", "dy.h*dy.c*dy.w/8", "dx.h*dx.c", BACK_GROUPS,
    *(f"{BACK_GROUPS}{larger}" for larger in SMALL_WINDOWS), f"{BACK_GROUPS}*operand.5",
    "dx.c*dx.pixels%4", f"dx.c*dx.h*{STRIDED}", f"{BACK_GROUPS}*{STRIDED}", "dx.c*dx.h/4",
    *(f"{part}*{rare}" for rare in GENERAL for part in (DX, "taps*dy.c", f"dx.pixels*{TAPS}")),
)  # fmt: skip

HELIUM = DSP | {
    "mct_conv_2d_s8": HELIUM_CONV,
    "mct_conv_2d_grad_input_s8": HELIUM_CONV_BACK,
    "mct_conv_2d_update_weight_s8": HELIUM_CONV_WEIGHT,
    "mct_conv_2d_grad_weight_s8": HELIUM_CONV_WEIGHT,
    "mct_depthwise_conv_2d_s8": HELIUM_DEPTHWISE,
    "mct_depthwise_conv_2d_grad_input_s8": HELIUM_DEPTHWISE_BACK,
}


# ----------------------------------------------------------------------------------- Armv6-M bodies

PANEL = "y.pixels*depth/4"  # the values of a position, packed again for every few channels
V6M_CONV = (
    "1", "y.c", "y.c*depth/4", Y, f"{Y}*depth/4", PANEL, "y.pixels", "y.pixels*y.c/32",
    f"{PANEL}*y.c*depth/4", f"{PANEL}*y.c/32", f"{PANEL}*depth%4>0", "y.c*depth*depth%4>0",
    f"{PANEL}*y.c*depth/4*depth%4>0", f"{Y}*operand.4", f"{Y}*requantize.rounds_once",
    f"{Y}*requantize.shift.rare", f"{Y}*requantize.low>-128", "y.c*depth*trained.rows>0",
    f"y.pixels*depth*{WIDE}", f"y.pixels*{WIDE}", f"y.pixels*window.kernel_h*{WIDE}",
    f"{PANEL}*y.c*depth/4*{WIDE}", f"{Y}*depth/4*depth>1020", f"{Y}*depth>1020",
)  # fmt: skip
BACK_PANEL = f"dx.pixels*dy.c/4*{TAPS}"
V6M_CONV_BACK = (
    "1", "dx.c", f"dx.c*dy.c/4*{TAPS}", DX, f"{DX}*dy.c/4*{TAPS}", BACK_PANEL, "dx.pixels",
    "dx.pixels*dx.c/32", f"{BACK_PANEL}*dx.c*dy.c/4*{TAPS}", f"{BACK_PANEL}*dx.c/32",
    f"{BACK_PANEL}*dy.c%4>0", f"{DX}*operand.6", f"{DX}*operand.4", f"{DX}*stage.per_channel",
    f"dx.c*dy.c*{TAPS}*trained.columns>0", f"dx.pixels*{TAPS}*{WIDE}",
    f"dx.pixels*{TAPS}*dx.c*dy.c/4*{TAPS}*{WIDE}", f"{BACK_PANEL}*dx.c/32*{WIDE}",
)  # fmt: skip
PAIRS = "window.kernel_h*window.kernel_w/2"
V6M_DEPTHWISE = (
    "1", "y.c", f"y.c*{TAPS}", Y, f"{Y}*{PAIRS}", f"{Y}*window.kernel_h", "y.h*y.c",
    "y.h*y.c*window.kernel_h", "x.h*x.c", "x.pixels*x.c", f"{Y}*operand.4",
    f"{Y}*requantize.rounds_once", f"{Y}*requantize.shift.rare", f"{Y}*requantize.low>-128",
    f"y.c*{PAIRS}", "x.h*x.c*x.w%2", "taps*y.c", "y.c*y.pixels/64",
    *(f"{part}*{rare}" for rare in GENERAL for part in (Y, "taps*y.c", f"{Y}*{TAPS}")),
)  # fmt: skip
V6M_DEPTHWISE_BACK = (
    "1", "dx.c", f"dx.c*{TAPS}", DX, f"{DX}*{PAIRS}", f"{DX}*window.kernel_h", "dx.h*dx.c",
    "dx.h*dx.c*window.kernel_h", "dy.h*dy.c", "dy.pixels*dy.c", f"{DX}*operand.5",
    f"{DX}*stage.per_channel", f"{DX}*{STRIDED}", f"{DX}*{PAIRS}*{STRIDED}",
    f"dy.h*dy.c*{STRIDED}", f"dx.h*dx.c*window.kernel_h*{STRIDED}", "taps*dy.c",
    *(f"{part}*{rare}" for rare in GENERAL for part in (DX, "taps*dy.c", f"{DX}*{TAPS}")),
)  # fmt: skip

ARMV6M = PORTABLE | {  # what is not here are the portable bodies
    "mct_conv_2d_s8": V6M_CONV,
    "mct_conv_2d_grad_input_s8": V6M_CONV_BACK,
    "mct_depthwise_conv_2d_s8": V6M_DEPTHWISE,
    "mct_depthwise_conv_2d_grad_input_s8": V6M_DEPTHWISE_BACK,
}
FEATURES = {"armv6m": ARMV6M, "dsp": DSP, "helium": HELIUM}


def features_of(function: str, isa: str) -> tuple[str, ...]:
    """What to try for a function."""
    own = FEATURES.get(isa, PORTABLE)
    return own.get(function) or BOTH.get(function) or OTHER
