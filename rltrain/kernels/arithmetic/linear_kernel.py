"""The layers of feed-forward networks in machine code, forward and backward: linear, noisy,
convolution, and layer normalization.

Weights are W [n_out, n_in] and b [n_out], one after the other in a flat array. Everything else has
a column for every row of a batch, [features, R]: then the weights are the left side of a product as
they are. R is padded to whole registers of columns, whose numbers mean nothing.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from rltrain.common import numba_cache
from rltrain.kernels.arithmetic import tile_kernel
from rltrain.kernels.arithmetic.tile_kernel import COLUMNS, WIDTH, F, multiply, padded

EPS = F(1e-5)  # of PyTorch's LayerNorm
njit = numba_cache.arithmetic(__file__, tile_kernel)


@intrinsic
def _turn_square(typing, x, place, row, out, to, to_row):
    """WIDTH × WIDTH elements of ``x`` as columns of ``out``; ``place`` and ``to`` are those of the
    first ones, ``row`` and ``to_row`` distances of rows.

    Step s = 1, 2, 4, … exchanges the squares of s × s elements beside the diagonal of squares of
    2s × 2s.
    """
    if x.layout != "C" or out.layout != "C":
        raise TypingError("expected C-contiguous arrays")

    def generate(context, builder, signature, arguments):
        vector, index = ir.VectorType(ir.FloatType(), WIDTH), ir.IntType(64)
        numbers = ir.VectorType(ir.IntType(32), WIDTH)

        def places(i):
            array = context.make_array(signature.args[i])(context, builder, value=arguments[i])
            first = builder.gep(array.data, [arguments[i + 1]])
            steps = (builder.mul(arguments[i + 2], index(r)) for r in range(WIDTH))
            return [builder.bitcast(builder.gep(first, [s]), vector.as_pointer()) for s in steps]

        lines = [builder.load(pointer, align=4) for pointer in places(0)]
        s = 1
        while s < WIDTH:
            of_first = [n if n // s % 2 == 0 else WIDTH + n - s for n in range(WIDTH)]
            of_second = [n + s if n // s % 2 == 0 else WIDTH + n for n in range(WIDTH)]
            for i in range(WIDTH):
                if i // s % 2 == 0:
                    pair = lines[i], lines[i + s]
                    lines[i], lines[i + s] = (
                        builder.shuffle_vector(*pair, ir.Constant(numbers, mask))
                        for mask in (of_first, of_second)
                    )
            s *= 2
        for line, pointer in zip(lines, places(3), strict=True):
            builder.store(line, pointer, align=4)
        return context.get_dummy_value()

    return types.void(x, place, row, out, to, to_row), generate


@njit()
def turn_into(x, n_rows, width, out):
    """The first ``n_rows`` × ``width`` elements of ``x`` as columns of ``out``; both are
    C-contiguous.
    """
    row, to_row = x.shape[1], out.shape[1]
    whole_rows, whole = n_rows // WIDTH * WIDTH, width // WIDTH * WIDTH
    for top in range(0, whole_rows, WIDTH):
        for left in range(0, whole, WIDTH):
            _turn_square(x, top * row + left, row, out, left * to_row + top, to_row)
    for i in range(width):
        for r in range(whole_rows if i < whole else 0, n_rows):
            out[i, r] = x[r, i]


@njit()
def columns(rows, width):
    """The first ``width`` features of rows [R, ≥ width] as columns [width, padded R], zeros after
    the last.
    """
    out = np.zeros((width, padded(len(rows))), F)
    turn_into(np.ascontiguousarray(rows), len(rows), width, out)
    return out


@njit()
def add_product(out, a, b):
    """out [M, R] += a · b [n, R]; ``a``: array, place of the first element, distance of its rows,
    distance of the terms of a row.
    """
    n, width = b.shape
    flat = out.reshape(-1)
    to, terms = (flat, 0, width), (b.reshape(-1), 0, COLUMNS, width)
    multiply(to, to, a, terms, len(out), width, n)


@njit()
def dense(x, flat, n_in, n_out, relu):
    """[n_in, R] to [n_out, R]."""
    y = np.zeros((n_out, x.shape[1]), F)
    add_product(y, (flat, 0, n_in, 1), x)
    lowest = F(0) if relu else F(-np.inf)
    for o in range(n_out):
        line, bias = y[o], flat[n_out * n_in + o]
        for r in range(len(line)):
            value = line[r] + bias
            line[r] = lowest if value < lowest else value
    return y


@njit()
def dense_gradient(x, of_output, n_rows, gradient):
    """Fill ``gradient``, by the layer's weights, from that by its output [n_out, R]; only the first
    ``n_rows`` columns count.
    """
    n_in, n_out = len(x), len(of_output)
    width = padded(n_in + 1)
    seen = np.zeros((n_rows, width), F)
    turn_into(x, n_in, n_rows, seen)
    seen[:, n_in] = F(1)  # whose sum is the bias's gradient
    out = np.zeros(n_out * width, F)
    of = of_output.reshape(-1), 0, of_output.shape[1], 1
    to, terms = (out, 0, width), (seen.reshape(-1), 0, COLUMNS, width)
    multiply(to, to, of, terms, n_out, width, n_rows)
    of_bias = gradient[n_out * n_in :]
    for o in range(n_out):
        line, of_weight = out[o * width : (o + 1) * width], gradient[o * n_in : (o + 1) * n_in]
        for i in range(n_in):
            of_weight[i] = line[i]
        of_bias[o] = line[n_in]


@njit()
def dense_input_gradient(of_output, flat, n_in):
    """The gradient by the layer's input [n_in, R]."""
    of_input = np.zeros((n_in, of_output.shape[1]), F)
    add_product(of_input, (flat, 0, 1, n_in), of_output)
    return of_input


@njit()
def normalize(x, weights):
    """Layer normalization and ReLU of ``x`` [n, R] in place (Ba et al. 2016, equation 4);
    ``weights`` are factors [n] and offsets [n].

    Returns:
        the normalized values [n, R], and in the last row [R] what they were divided by, inverted.
    """
    n, width = x.shape
    kept = np.empty((n + 1, width), F)
    mean, inverse = np.zeros(width, F), kept[n]
    inverse[:] = F(0)
    for o in range(n):
        for r in range(width):
            mean[r] += x[o, r]
    for r in range(width):
        mean[r] /= F(n)
    for o in range(n):
        for r in range(width):
            distance = x[o, r] - mean[r]
            kept[o, r] = distance
            inverse[r] += distance * distance
    for r in range(width):
        inverse[r] = F(1) / np.sqrt(inverse[r] / F(n) + EPS)
    for o in range(n):
        factor, offset = weights[o], weights[n + o]
        for r in range(width):
            kept[o, r] *= inverse[r]
            value = kept[o, r] * factor + offset
            x[o, r] = F(0) if value < 0 else value
    return kept


@njit()
def normalize_gradient(of_output, kept, weights, n_rows, gradient):
    """Fill ``gradient``, by ``weights``, and turn ``of_output`` [n, R], the gradient before the
    ReLU, into that by the layer's input; only the first ``n_rows`` columns count.
    """
    n = len(of_output)
    mean, product, inverse = np.zeros(n_rows, F), np.zeros(n_rows, F), kept[n]
    for o in range(n):
        of_factor, of_offset, factor = F(0), F(0), weights[o]
        for r in range(n_rows):
            of_factor += of_output[o, r] * kept[o, r]
            of_offset += of_output[o, r]
            of_output[o, r] *= factor
            mean[r] += of_output[o, r]
            product[r] += of_output[o, r] * kept[o, r]
        gradient[o], gradient[n + o] = of_factor, of_offset
    for o in range(n):
        for r in range(n_rows):
            rest = of_output[o, r] - (mean[r] + kept[o, r] * product[r]) / F(n)
            of_output[o, r] = inverse[r] * rest


@njit()
def patches(x, shape):
    """The patches under a convolution's filters, whose product with its weights is a linear layer:
    images [C · H · W, R] to [C · kernel · kernel, places · R]. The outputs of that layer [filters,
    places · R] are images [filters · places, R] as they lie in memory.

    Args:
        shape: channels, height, width, kernel and stride; kernels are square.
    """
    pixels, width = patch_pixels(shape), x.shape[1]
    out = np.empty((len(pixels), pixels.shape[1] * width), F)
    for i in range(len(pixels)):
        for p in range(pixels.shape[1]):
            pixel, to = x[pixels[i, p]], out[i, p * width :]
            for r in range(width):
                to[r] = pixel[r]
    return out


@njit()
def patches_gradient(of_patches, shape):
    """The gradient by the images [C · H · W, R], from that by the patches."""
    pixels = patch_pixels(shape)
    width = of_patches.shape[1] // pixels.shape[1]
    of_x = np.zeros((shape[0] * shape[1] * shape[2], width), F)
    for i in range(len(pixels)):
        for p in range(pixels.shape[1]):
            of_pixel, of_patch = of_x[pixels[i, p]], of_patches[i, p * width :]
            for r in range(width):
                of_pixel[r] += of_patch[r]
    return of_x


@njit()
def patch_pixels(shape):
    """Pixels of every patch: [C · kernel · kernel, places]."""
    channels, height, width, kernel, stride = shape
    down, across = (height - kernel) // stride + 1, (width - kernel) // stride + 1
    out = np.empty((channels * kernel * kernel, down * across), np.uint32)  # never counts backwards
    for i in range(out.shape[0]):
        c, top, left = i // (kernel * kernel), i // kernel % kernel, i % kernel
        for p in range(out.shape[1]):
            row, column = p // across * stride + top, p % across * stride + left
            out[i, p] = (c * height + row) * width + column
    return out


@njit()
def with_noise(parameters, layers, noise, weights):
    """Fill ``weights``, those that a network without noise would have: W + sigma · f(out) f(in)
    (Fortunato et al. 2018, equations 10 and 11).

    Args:
        parameters: those of each layer: W and b, of a noisy one then its sigmas of both, and
            factors and offsets of its normalization.
        layers: [L, 4], inputs, outputs, whether it is noisy, and weights of its normalization.
        noise: f of normal numbers, those of a noisy layer's inputs, then of its outputs.
    """
    for layer in range(len(layers)):
        n_in, n_out, noisy, n_norm = layers[layer]
        n = (n_in + 1) * n_out
        copy_row(parameters[:n], weights)
        if noisy:
            of_in, of_out, noise = noise[:n_in], noise[n_in : n_in + n_out], noise[n_in + n_out :]
            sigma, parameters = parameters[n : 2 * n], parameters[n:]
            for o in range(n_out):
                row, to = sigma[o * n_in : (o + 1) * n_in], weights[o * n_in : (o + 1) * n_in]
                for i in range(n_in):
                    to[i] += row[i] * (of_out[o] * of_in[i])
                weights[n_out * n_in + o] += sigma[n_out * n_in + o] * of_out[o]
        copy_row(parameters[n : n + n_norm], weights[n:])
        parameters, weights = parameters[n + n_norm :], weights[n + n_norm :]


@njit()
def noise_gradient(of_weights, layers, noise, gradient):
    """Fill ``gradient``, by the parameters, from that by the weights of ``with_noise``."""
    for layer in range(len(layers)):
        n_in, n_out, noisy, n_norm = layers[layer]
        n = (n_in + 1) * n_out
        copy_row(of_weights[:n], gradient)
        if noisy:
            of_in, of_out, noise = noise[:n_in], noise[n_in : n_in + n_out], noise[n_in + n_out :]
            gradient = gradient[n:]
            for o in range(n_out):
                row, to = of_weights[o * n_in : (o + 1) * n_in], gradient[o * n_in : (o + 1) * n_in]
                for i in range(n_in):
                    to[i] = row[i] * (of_out[o] * of_in[i])
                gradient[n_out * n_in + o] = of_weights[n_out * n_in + o] * of_out[o]
        copy_row(of_weights[n : n + n_norm], gradient[n:])
        gradient, of_weights = gradient[n + n_norm :], of_weights[n + n_norm :]


@njit()
def copy_row(row, to):
    """Write ``row`` to the beginning of ``to``."""
    for i in range(len(row)):
        to[i] = row[i]
