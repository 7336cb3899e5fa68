"""Steps of CartPole, Acrobot and MountainCar in machine code: the operations of Gymnasium's classes
in the same order, with the same library functions, so that results are bitwise equal.

State is [E, 4] float64 (MountainCar uses two of four), ``values`` [E, V] the attributes named in
``classic_control``. Each function steps the environments that are ``playing``, fills ``obs``
[E, 1, O], ``reward`` and ``terminated`` [E], and returns the first environment with an invalid
action or an observation that is not finite, or -1.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from functools import partial

import numpy as np

from rltrain.common import numba_cache

njit = partial(numba_cache.njit, __file__)
PI = math.pi


@njit()
def cart_pole(values, state, action, playing, obs, reward, terminated):
    """``CartPoleEnv.step``."""
    for e in range(len(state)):
        terminated[e] = False
        if not playing[e]:
            continue
        gravity, masspole, total_mass, length, polemass_length = values[e, :5]
        force_mag, tau, x_limit, theta_limit, semi_implicit, sutton_barto = values[e, 5:]
        if not 0 <= action[e, 0] < 2:
            return e
        x, x_dot, theta, theta_dot = state[e]
        force = force_mag if action[e, 0] == 1 else -force_mag
        cos, sin = math.cos(theta), math.sin(theta)
        temp = (force + polemass_length * (theta_dot * theta_dot) * sin) / total_mass
        theta_acc = (gravity * sin - cos * temp) / (
            length * (4.0 / 3.0 - masspole * (cos * cos) / total_mass)
        )
        x_acc = temp - polemass_length * theta_acc * cos / total_mass
        if semi_implicit:
            x_dot = x_dot + tau * x_acc
            theta_dot = theta_dot + tau * theta_acc
            x = x + tau * x_dot
            theta = theta + tau * theta_dot
        else:
            x = x + tau * x_dot
            x_dot = x_dot + tau * x_acc
            theta = theta + tau * theta_dot
            theta_dot = theta_dot + tau * theta_acc
        state[e, 0], state[e, 1], state[e, 2], state[e, 3] = x, x_dot, theta, theta_dot
        ended = x < -x_limit or x > x_limit or theta < -theta_limit or theta > theta_limit
        terminated[e] = ended
        reward[e] = (-1.0 if ended else 0.0) if sutton_barto else 1.0
        for i in range(4):
            obs[e, 0, i] = state[e, i]
            if not math.isfinite(obs[e, 0, i]):
                return e
    return -1


@njit()
def mountain_car(values, state, action, playing, obs, reward, terminated):
    """``MountainCarEnv.step``."""
    for e in range(len(state)):
        terminated[e] = False
        if not playing[e]:
            continue
        low, high, max_speed, goal, goal_velocity, force, gravity = values[e]
        if not 0 <= action[e, 0] < 3:
            return e
        position, velocity = state[e, 0], state[e, 1]
        velocity += (action[e, 0] - 1) * force + math.cos(3 * position) * (-gravity)
        velocity = min(max(velocity, -max_speed), max_speed)
        position += velocity
        position = min(max(position, low), high)
        if position == low and velocity < 0:
            velocity = 0.0
        state[e, 0], state[e, 1] = position, velocity
        terminated[e] = position >= goal and velocity >= goal_velocity
        reward[e] = -1.0
        obs[e, 0, 0], obs[e, 0, 1] = position, velocity
        if not (math.isfinite(obs[e, 0, 0]) and math.isfinite(obs[e, 0, 1])):
            return e
    return -1


@njit()
def acrobot(values, state, action, playing, obs, reward, terminated):
    """``AcrobotEnv.step``, one step of a Runge-Kutta method of order 4."""
    k, point = np.empty((4, 4)), np.empty(4)
    for e in range(len(state)):
        terminated[e] = False
        if not playing[e]:
            continue
        if not 0 <= action[e, 0] < 3:
            return e
        dt, max_vel_1, max_vel_2 = values[e, :3]
        torque, y = values[e, 3 + action[e, 0]], state[e]
        for stage in range(4):
            for i in range(4):
                point[i] = y[i]
                if stage > 0:
                    point[i] += (dt if stage == 3 else dt / 2.0) * k[stage - 1, i]
            derivative(values[e], torque, point, k[stage])
        for i in range(4):
            y[i] = y[i] + dt / 6.0 * (k[0, i] + 2 * k[1, i] + 2 * k[2, i] + k[3, i])
        y[0], y[1] = wrapped(y[0]), wrapped(y[1])
        y[2] = min(max(y[2], -max_vel_1), max_vel_1)
        y[3] = min(max(y[3], -max_vel_2), max_vel_2)
        ended = -math.cos(y[0]) - math.cos(y[1] + y[0]) > 1.0
        terminated[e], reward[e] = ended, 0.0 if ended else -1.0
        for i in range(2):
            obs[e, 0, 2 * i], obs[e, 0, 2 * i + 1] = math.cos(y[i]), math.sin(y[i])
        obs[e, 0, 4], obs[e, 0, 5] = y[2], y[3]
        for i in range(6):
            if not math.isfinite(obs[e, 0, i]):
                return e
    return -1


@njit()
def derivative(values, torque, point, out):
    """``AcrobotEnv._dsdt``. The exponent is a variable, so squares use the C library's ``pow``, as
    in NumPy.
    """
    m1, m2, l1, lc1, lc2, moi, nips, two = values[6:]
    theta1, theta2, dtheta1, dtheta2 = point
    cos2, sin2 = math.cos(theta2), math.sin(theta2)
    lc1_2, l1_2, lc2_2 = math.pow(lc1, two), math.pow(l1, two), math.pow(lc2, two)
    d1 = m1 * lc1_2 + m2 * (l1_2 + lc2_2 + 2 * l1 * lc2 * cos2) + moi + moi
    d2 = m2 * (lc2_2 + l1 * lc2 * cos2) + moi
    phi2 = m2 * lc2 * 9.8 * math.cos(theta1 + theta2 - PI / 2.0)
    phi1 = (
        -m2 * l1 * lc2 * math.pow(dtheta2, two) * sin2
        - 2 * m2 * l1 * lc2 * dtheta2 * dtheta1 * sin2
        + (m1 * lc1 + m2 * l1) * 9.8 * math.cos(theta1 - PI / 2)
        + phi2
    )
    below = m2 * lc2_2 + moi - math.pow(d2, two) / d1
    if nips:
        ddtheta2 = (torque + d2 / d1 * phi1 - phi2) / below
    else:
        ddtheta2 = (
            torque + d2 / d1 * phi1 - m2 * l1 * lc2 * math.pow(dtheta1, two) * sin2 - phi2
        ) / below
    out[0], out[1] = dtheta1, dtheta2
    out[2], out[3] = -(d2 * ddtheta2 + phi1) / d1, ddtheta2


@njit()
def wrapped(angle):
    """Wrap an angle to -π … π."""
    while angle > PI:
        angle = angle - 2 * PI
    while angle < -PI:
        angle = angle + 2 * PI
    return angle
