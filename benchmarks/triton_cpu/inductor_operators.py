"""The operators that the Inductor table runs, by family, in OpInfo's spelling; and those left out, with the reason.

Chosen for breadth: everything here is code that TorchInductor writes in Triton. Operators that it hands to PyTorch's
own kernels whole (factorisations, FFTs, convolutions) would say nothing about this backend.
"""

from __future__ import annotations


def _names(text: str, prefix: str = "") -> tuple[str, ...]:
    return tuple(prefix + name for name in text.split())


FAMILIES: dict[str, tuple[str, ...]] = {
    "unary": _names(
        "abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor "
        "frac frexp i0 lgamma log log10 log1p log2 logit nan_to_num neg rad2deg reciprocal round round.decimals_3 "
        "rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc"
    )
    + _names("entr erfcx i0e i1 i1e log_ndtr ndtr ndtri bessel_j0 bessel_y1 modified_bessel_i0", "special."),
    "binary": _names(
        "add atan2 clamp copysign div.floor_rounding div.no_rounding_mode div.trunc_rounding float_power floor_divide "
        "fmax fmin fmod heaviside hypot lcm ldexp lerp logaddexp logaddexp2 max.binary maximum min.binary minimum mul "
        "nextafter pow remainder rsub sub true_divide xlogy addcdiv addcmul special.xlog1py special.zeta"
    ),
    "comparison and logic": _names(
        "bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor eq ge gt isclose "
        "isfinite isin isinf isnan isneginf isposinf le logical_and logical_not logical_or logical_xor lt ne where"
    ),
    "activation": _names(
        "celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish prelu relu relu6 selu "
        "silu softplus softshrink softsign tanhshrink threshold",
        "nn.functional.",
    ),
    "reduction": _names(
        "all amax amin aminmax any argmax argmin count_nonzero dist linalg.vector_norm logsumexp max.reduction_no_dim "
        "max.reduction_with_dim mean min.reduction_with_dim nanmean nansum norm norm.inf prod std std_mean sum "
        "sum_to_size trace var var_mean masked.amax masked.argmin masked.mean masked.norm masked.std masked.sum"
    ),
    "normalisation": _names(
        "batch_norm group_norm instance_norm layer_norm local_response_norm normalize rms_norm", "nn.functional."
    )
    + _names("native_batch_norm native_group_norm native_layer_norm renorm"),
    "softmax": _names(
        "softmax softmax.with_dtype log_softmax nn.functional.softmin masked.softmax masked.log_softmax "
        "_softmax_backward_data torch.ops.aten._safe_softmax.default"
    ),
    "scan": _names("cummax cummin cumprod cumsum cumulative_trapezoid logcumsumexp masked.cumsum masked.cumprod trapz"),
    "sort": _names("sort msort argsort topk quantile"),
    "indexing": _names(
        "__getitem__ _unsafe_masked_index bucketize diag diag_embed gather index_add index_copy index_fill index_put "
        "index_select masked_fill masked_scatter put scatter scatter_add scatter_reduce.amax scatter_reduce.amin "
        "scatter_reduce.mean scatter_reduce.sum select_scatter slice_scatter take take_along_dim tril triu"
    ),
    "pooling": _names(
        "adaptive_avg_pool2d adaptive_max_pool2d avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d "
        "max_unpool2d",
        "nn.functional.",
    )
    + _names("max_pool2d_with_indices_backward"),
    "padding and resampling": _names(
        "pad.constant pad.reflect pad.replicate interpolate.bicubic interpolate.bilinear interpolate.linear "
        "interpolate.nearest interpolate.trilinear grid_sample pixel_shuffle pixel_unshuffle",
        "nn.functional.",
    )
    + _names("constant_pad_nd grid_sampler_2d"),
    "embedding and loss": _names(
        "embedding binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cosine_similarity "
        "cross_entropy hinge_embedding_loss huber_loss kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss "
        "nll_loss poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss",
        "nn.functional.",
    ),
    "shape": _names(
        "arange as_strided_copy as_strided_scatter block_diag cat clone column_stack cross diagonal_copy "
        "diagonal_scatter diff dstack fft.fftshift fill flip full full_like gradient hstack kron linalg.vander ones "
        "outer permute_copy repeat repeat_interleave rot90 roll stack tile unfold_copy vstack zeros_like"
    ),
    "conversion": _names("bfloat16 bool byte char double float half int long short to"),
    "product": _names("addmv addr dot inner linalg.vecdot mv vdot nn.functional.bilinear"),
}

NOT_COMPARABLE = {
    "rand*, bernoulli, dropout, normal, ...": "random: eager draws other numbers",
    "empty*, new_empty*": "their content is undefined",
    "jiterator_*": "CUDA C++ by definition",
    "linalg.*, fft.*, conv*, mm, bmm": "PyTorch's own kernels (mm and bmm become Triton under max_autotune)",
}
