"""Observations with images among their columns: a byte per pixel in the buffer, the same values
outside.
"""

import numpy as np
import pytest
import torch

from rltrain.buffer.fields import PackedObs, n_bytes, step_fields
from rltrain.types import Clock, EnvSpec
from tests.buffer.streams import Stream, saved
from tests.buffer.test_replay import make

SCALE = 1 / 255
SPEC = EnvSpec(  # two numbers, an image, a number, bits
    n_agents=1, n_actions=3, obs_shape=(263,), obs_bytes=((2, 258, SCALE), (259, 263, 1.0))
)


def observations(n):
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(n, 1, 263)).astype(np.float32)
    obs[..., 2:258] = np.arange(256, dtype=np.float32) * np.float32(SCALE)  # every byte
    obs[..., 259:] = rng.integers(0, 2, (n, 1, 4))
    return obs


def test_every_byte_and_number_comes_back_bit_for_bit():
    packed = PackedObs(SPEC, "float32")
    obs = observations(3)
    stored = packed.pack(obs)
    assert (stored.dtype, stored.shape) == (np.uint8, (3, 1, 256 + 4 + 3 * 4))
    assert np.array_equal(packed.unpack(torch.from_numpy(stored)).numpy(), obs)


@pytest.mark.parametrize("rows", [(), (1,), (2,), (3, 2)])
@pytest.mark.parametrize("n_numbers", [0, 1, 3])
@pytest.mark.parametrize("n_pixels", range(1, 9))
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_no_number_of_pixels_is_misaligned(precision, n_pixels, n_numbers, rows):
    """Defect: three or five bytes before numbers, or before none, could not be read as numbers."""
    width = n_pixels + n_numbers
    spec = EnvSpec(n_agents=1, n_actions=2, obs_shape=(width,), obs_bytes=((0, n_pixels, 1.0),))
    packed = PackedObs(spec, precision)
    obs = np.random.default_rng(0).integers(0, 256, (*rows, width)).astype(np.float32)
    assert np.array_equal(packed.unpack(torch.from_numpy(packed.pack(obs))).numpy(), obs)


def test_half_precision_rounds_numbers_only():
    packed = PackedObs(SPEC, "float16")
    obs = observations(2)
    stored = packed.pack(obs)
    assert stored.shape[-1] == 256 + 4 + 3 * 2
    found = packed.unpack(torch.from_numpy(stored)).numpy()
    assert np.array_equal(found[..., 2:258], obs[..., 2:258])
    assert np.array_equal(found[..., :2], obs[..., :2].astype(np.float16))


def test_a_step_takes_a_byte_per_pixel():
    plain = n_bytes(step_fields(EnvSpec(n_agents=1, n_actions=3, obs_shape=(263,)), "float32"))
    assert plain - n_bytes(step_fields(SPEC, "float32")) == 3 * 260


@pytest.mark.parametrize("frame_stack", [1, 3])
def test_samples_and_saved_buffers_are_those_of_unpacked_observations(frame_stack):
    def filled(obs_bytes):
        spec = EnvSpec(
            n_agents=1, n_actions=3, obs_shape=(6,), frame_stack=frame_stack, obs_bytes=obs_bytes
        )
        buffer = make(spec=spec, capacity=100)
        stream = Stream(0, spec=spec)
        for _ in range(4):
            buffer.add(stream.steps(10))
        return buffer

    plain, packed = filled(()), filled(((1, 4, 1.0),))
    assert packed.store.arrays["obs"].dtype == np.uint8
    expected = plain.sample(16, Clock()).obs
    state = saved(packed)
    assert torch.equal(packed.sample(16, Clock()).obs, expected)
    packed.load_state_dict(state)
    assert torch.equal(packed.sample(16, Clock()).obs, expected)
