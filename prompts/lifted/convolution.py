"""Convolution for lifted candidates, in place of the library call that TorchInductor would make.

`lifted_convolution(x, weight, bias, out, stride, padding, dilation, transposed, groups)`: any strides, one to three
spatial axes, fp32 accumulation. A matrix product per tap of the filter, over channels, which TorchInductor lays out
last; where every channel is a group of its own, a sum per channel.
"""

import triton
import triton.language as tl


@triton.jit
def lifted_source(o, size, tap, stride, padding, dilation, TRANSPOSED: tl.constexpr):
    """Which input position an output position reads at a tap, and whether there is one."""
    if TRANSPOSED:
        at = o + padding - tap * dilation
        i = at // stride
        there = (at >= 0) & (at % stride == 0) & (i < size)
    else:
        i = o * stride - padding + tap * dilation
        there = (i >= 0) & (i < size)
    return i, there


@triton.jit
def lifted_row(
    pixel, tap, od, oh, ow, id, ih, iw, kh, kw, sd, sh, sw, pd, ph, pw, dd, dh, dw, x_b, x_d, x_h, x_w,
    TRANSPOSED: tl.constexpr,
):  # fmt: skip
    """Where the channels of the input begin that each output pixel reads at a tap, and whether it reads any."""
    w = pixel % ow
    h = (pixel // ow) % oh
    d = (pixel // (ow * oh)) % od
    b = pixel // (ow * oh * od)
    z, z_there = lifted_source(d, id, tap // (kh * kw), sd, pd, dd, TRANSPOSED)
    y, y_there = lifted_source(h, ih, (tap // kw) % kh, sh, ph, dh, TRANSPOSED)
    v, v_there = lifted_source(w, iw, tap % kw, sw, pw, dw, TRANSPOSED)
    return b.to(tl.int64) * x_b + z * x_d + y * x_h + v * x_w, z_there & y_there & v_there


@triton.autotune(
    configs=[
        triton.Config({"BM": 64, "BN": 64, "BK": 32}),
        triton.Config({"BM": 128, "BN": 64, "BK": 64}),
        triton.Config({"BM": 256, "BN": 32, "BK": 16}),
        triton.Config({"BM": 256, "BN": 16, "BK": 32}),
        triton.Config({"BM": 64, "BN": 128, "BK": 64}),
    ],
    key=["pixels", "ci", "co"],
)
@triton.jit
def lifted_convolution_kernel(
    x, weight, bias, out, pixels, ci, co, od, oh, ow, id, ih, iw, kd, kh, kw, sd, sh, sw, pd, ph, pw, dd, dh, dw,
    x_b, x_c, x_d, x_h, x_w, w_group, w_tap, w_ci, w_co, o_b, o_c, o_d, o_h, o_w,
    HAS_BIAS: tl.constexpr, TRANSPOSED: tl.constexpr, FUSED: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """FUSED: taps and channels are one axis of the product, which fills its blocks where channels are few."""
    tile = tl.program_id(0)
    group = tl.program_id(1).to(tl.int64)
    tiles_n = tl.cdiv(co, BN)
    pixel = (tile // tiles_n) * BM + tl.arange(0, BM)
    n = (tile % tiles_n) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    if FUSED:
        for start in range(0, kd * kh * kw * ci, BK):
            k = start + tl.arange(0, BK)
            row, there = lifted_row(
                pixel[:, None], (k // ci)[None, :], od, oh, ow, id, ih, iw, kh, kw, sd, sh, sw, pd, ph, pw, dd, dh, dw,
                x_b, x_d, x_h, x_w, TRANSPOSED,
            )  # fmt: skip
            inside = k < kd * kh * kw * ci
            left = tl.load(
                x + row + (group * ci + k % ci)[None, :] * x_c,
                mask=there & (pixel[:, None] < pixels) & inside[None, :],
                other=0.0,
            )
            right = tl.load(
                weight + group * w_group + (k // ci * w_tap + k % ci * w_ci)[:, None] + n[None, :] * w_co,
                mask=inside[:, None] & (n[None, :] < co),
                other=0.0,
            )
            total = tl.dot(left, right, total, input_precision="ieee")
    else:
        for tap in range(kd * kh * kw):
            row, there = lifted_row(
                pixel, tap, od, oh, ow, id, ih, iw, kh, kw, sd, sh, sw, pd, ph, pw, dd, dh, dw, x_b, x_d, x_h, x_w,
                TRANSPOSED,
            )  # fmt: skip
            there = there & (pixel < pixels)
            for start in range(0, ci, BK):
                c = start + tl.arange(0, BK)
                left = tl.load(
                    x + row[:, None] + (group * ci + c)[None, :] * x_c,
                    mask=there[:, None] & (c[None, :] < ci),
                    other=0.0,
                )
                right = tl.load(
                    weight + group * w_group + tap * w_tap + c[:, None] * w_ci + n[None, :] * w_co,
                    mask=(c[:, None] < ci) & (n[None, :] < co),
                    other=0.0,
                )
                total = tl.dot(left, right, total, input_precision="ieee")
    channel = group * co + n
    if HAS_BIAS:
        total += tl.load(bias + channel, mask=n < co, other=0.0).to(tl.float32)[None, :]
    b = (pixel // (ow * oh * od)).to(tl.int64)
    place = b * o_b + ((pixel // (ow * oh)) % od) * o_d + ((pixel // ow) % oh) * o_h + (pixel % ow) * o_w
    tl.store(
        out + place[:, None] + channel[None, :] * o_c,
        total.to(out.dtype.element_ty),
        mask=(pixel[:, None] < pixels) & (n[None, :] < co),
    )


@triton.autotune(
    configs=[
        triton.Config({"BM": 16, "BN": 64}),
        triton.Config({"BM": 64, "BN": 16}),
        triton.Config({"BM": 64, "BN": 64}),
    ],
    key=["pixels", "channels"],
)
@triton.jit
def lifted_depthwise_kernel(
    x, weight, bias, out, pixels, channels, od, oh, ow, id, ih, iw, kd, kh, kw, sd, sh, sw, pd, ph, pw, dd, dh, dw,
    x_b, x_c, x_d, x_h, x_w, w_tap, w_c, o_b, o_c, o_d, o_h, o_w,
    HAS_BIAS: tl.constexpr, TRANSPOSED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    tiles_n = tl.cdiv(channels, BN)
    pixel = (tile // tiles_n) * BM + tl.arange(0, BM)
    c = (tile % tiles_n) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for tap in range(kd * kh * kw):
        row, there = lifted_row(
            pixel, tap, od, oh, ow, id, ih, iw, kh, kw, sd, sh, sw, pd, ph, pw, dd, dh, dw, x_b, x_d, x_h, x_w,
            TRANSPOSED,
        )  # fmt: skip
        there = there & (pixel < pixels)
        mask = there[:, None] & (c[None, :] < channels)
        left = tl.load(x + row[:, None] + c[None, :] * x_c, mask=mask, other=0.0).to(tl.float32)
        right = tl.load(weight + tap * w_tap + c * w_c, mask=c < channels, other=0.0).to(tl.float32)
        total += left * right[None, :]
    if HAS_BIAS:
        total += tl.load(bias + c, mask=c < channels, other=0.0).to(tl.float32)[None, :]
    b = (pixel // (ow * oh * od)).to(tl.int64)
    place = b * o_b + ((pixel // (ow * oh)) % od) * o_d + ((pixel // ow) % oh) * o_h + (pixel % ow) * o_w
    tl.store(
        out + place[:, None] + c[None, :] * o_c,
        total.to(out.dtype.element_ty),
        mask=(pixel[:, None] < pixels) & (c[None, :] < channels),
    )


def lifted_convolution(x, weight, bias, out, stride, padding, dilation, transposed, groups):
    """out = convolution of x with weight (+ bias; None: no bias). x (B, C, *spatial), weight as torch lays it out."""
    missing = 5 - x.dim()
    stride, padding, dilation = (
        (neutral,) * missing + tuple(given) for neutral, given in ((1, stride), (0, padding), (1, dilation))
    )
    for _ in range(missing):
        x, weight, out = x.unsqueeze(2), weight.unsqueeze(2), out.unsqueeze(2)
    batch, channels, id, ih, iw = x.shape
    _, out_channels, od, oh, ow = out.shape
    kd, kh, kw = weight.shape[2:]
    ci, co = channels // groups, out_channels // groups
    taps = weight.permute(2, 3, 4, 0, 1) if transposed else weight.permute(2, 3, 4, 1, 0)
    taps = taps.contiguous()  # (taps, channels read, channels written), those of groups where torch has them
    pixels = batch * od * oh * ow
    sizes = (od, oh, ow, id, ih, iw, kd, kh, kw, *stride, *padding, *dilation)
    added = out if bias is None else bias
    flags = {"HAS_BIAS": bias is not None, "TRANSPOSED": transposed}
    w_tap, w_in, w_out = taps.stride(2), taps.stride(3), taps.stride(4)
    if ci == 1 and co == 1:
        grid = lambda meta: (triton.cdiv(pixels, meta["BM"]) * triton.cdiv(channels, meta["BN"]),)  # noqa: E731
        lifted_depthwise_kernel[grid](
            x, taps, added, out, pixels, channels, *sizes, *x.stride(),
            w_tap, w_in if transposed else w_out, *out.stride(), **flags,
        )  # fmt: skip
    else:
        grid = lambda meta: (triton.cdiv(pixels, meta["BM"]) * triton.cdiv(co, meta["BN"]), groups)  # noqa: E731
        lifted_convolution_kernel[grid](
            x, taps, added, out, pixels, ci, co, *sizes, *x.stride(),
            ci * w_in if transposed else co * w_out, w_tap, w_in, w_out, *out.stride(), FUSED=ci < 16, **flags,
        )  # fmt: skip
    return out
