"""Unit types seen from above: simple shapes, one per type, in their team's colors.

A new type is one more row of ``SHAPES``; a type without a row is a plain disc.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from PIL import Image, ImageDraw

Color = tuple[int, int, int]

ALLY, ENEMY = 0, 1
TEAMS: tuple[Mapping[str, Color], ...] = (
    {"body": (64, 152, 255), "dark": (18, 52, 110), "light": (214, 234, 255)},
    {"body": (246, 84, 62), "dark": (104, 22, 18), "light": (255, 224, 208)},
)
"""Blue agents and red enemies, distinguishable by color-blind people too."""
ACID: Color = (168, 232, 64)
BLADE: Color = (150, 240, 255)
WHITE: Color = (255, 255, 255)

HEADINGS = 24  # directions in which a shape is drawn
SPAN = 1.7  # half the side of a sprite, in radii of its unit
_FINE = 4  # a shape is drawn this much larger and reduced

Shape = tuple[str, str, tuple[tuple[float, float], ...]]
"""Kind (disc: center and a point on its rim; bar: two ends and (width, 0); area: corners), color
(of the team or by itself) and points in radii of the unit, which looks along +x."""


def _mirrored(*shapes: Shape) -> tuple[Shape, ...]:
    """The shapes and their mirror images across the line of sight."""
    out = list(shapes)
    for kind, color, points in shapes:
        flip = points[:2] if kind == "bar" else points
        rest = points[2:] if kind == "bar" else ()
        out.append((kind, color, tuple((x, -y) for x, y in flip) + rest))
    return tuple(out)


def _star(n: int, outer: float, inner: float) -> tuple[tuple[float, float], ...]:
    angles = [math.pi * k / n for k in range(2 * n)]
    radii = [inner if k % 2 else outer for k in range(2 * n)]
    return tuple((r * math.cos(a), r * math.sin(a)) for a, r in zip(angles, radii, strict=True))


def _disc(color: str, x: float, y: float, radius: float) -> Shape:
    return "disc", color, ((x, y), (x + radius, y))


def _bar(color: str, a: tuple[float, float], b: tuple[float, float], width: float) -> Shape:
    return "bar", color, (a, b, (width, 0.0))


SHAPES: Mapping[str, tuple[Shape, ...]] = {
    "marine": (
        _bar("light", (0.2, -0.5), (1.5, -0.5), 0.3),
        _disc("dark", 0, 0, 1.0), _disc("body", 0, 0, 0.82), _disc("light", 0.35, 0, 0.28),
    ),
    "marauder": (
        *_mirrored(_bar("light", (0.0, 0.8), (1.15, 0.8), 0.42)),
        ("area", "dark", _star(4, 1.08, 1.08)), ("area", "body", _star(4, 0.86, 0.86)),
        _bar("dark", (0.1, -0.45), (0.1, 0.45), 0.34),
    ),
    "medivac": (
        *_mirrored(_disc("dark", -0.15, 0.85, 0.55), _disc("body", -0.15, 0.85, 0.4)),
        ("area", "dark", ((1.25, 0), (0.6, 0.62), (-1.1, 0.55), (-1.1, -0.55), (0.6, -0.62))),
        ("area", "body", ((1.0, 0), (0.5, 0.44), (-0.93, 0.38), (-0.93, -0.38), (0.5, -0.44))),
        _bar("white", (-0.5, 0), (0.4, 0), 0.2), _bar("white", (-0.05, -0.4), (-0.05, 0.4), 0.2),
    ),
    "stalker": (
        *_mirrored(
            _bar("dark", (0, 0), (1.05, 0.95), 0.34), _bar("dark", (0, 0), (-1.05, 0.95), 0.34),
            _bar("body", (0, 0), (0.98, 0.88), 0.14), _bar("body", (0, 0), (-0.98, 0.88), 0.14),
        ),
        ("area", "dark", ((0.95, 0), (0, 0.72), (-0.8, 0), (0, -0.72))),
        ("area", "body", ((0.72, 0), (0, 0.52), (-0.58, 0), (0, -0.52))),
        _disc("light", 0.18, 0, 0.24),
    ),
    "zealot": (
        *_mirrored(_bar("blade", (0.3, 0.78), (1.55, 0.55), 0.22)),
        ("area", "dark", ((1.0, 0), (-0.1, 1.05), (-0.95, 0.7), (-0.95, -0.7), (-0.1, -1.05))),
        ("area", "body", ((0.75, 0), (-0.15, 0.8), (-0.75, 0.53), (-0.75, -0.53), (-0.15, -0.8))),
        _disc("light", 0.05, 0, 0.26),
    ),
    "colossus": (
        *_mirrored(
            _bar("dark", (0.2, 0.2), (1.15, 1.15), 0.24),
            _bar("dark", (-0.2, 0.2), (-1.15, 1.15), 0.24),
            _bar("body", (0.2, 0.2), (1.1, 1.1), 0.1),
            _bar("body", (-0.2, 0.2), (-1.1, 1.1), 0.1),
            _disc("light", 1.15, 1.15, 0.15), _disc("light", -1.15, 1.15, 0.15),
        ),
        ("area", "dark", ((0.62, 0.95), (0.62, -0.95), (-0.5, -0.7), (-0.5, 0.7))),
        ("area", "body", ((0.48, 0.78), (0.48, -0.78), (-0.38, -0.56), (-0.38, 0.56))),
        *_mirrored(_disc("light", 0.45, 0.6, 0.2)),
    ),
    "zergling": (
        *_mirrored(_bar("light", (0.35, 0.3), (1.35, 0.62), 0.22)),
        ("area", "dark", ((1.05, 0), (0.1, 0.85), (-1.35, 0), (0.1, -0.85))),
        ("area", "body", ((0.8, 0), (0.05, 0.6), (-1.0, 0), (0.05, -0.6))),
    ),
    "baneling": (
        ("area", "dark", _star(9, 1.3, 0.9)), _disc("body", 0, 0, 0.86), _disc("acid", 0, 0, 0.52),
    ),
    "hydralisk": (
        _bar("dark", (-0.3, 0), (-1.45, 0.35), 0.42), _bar("body", (-0.3, 0), (-1.4, 0.33), 0.22),
        *_mirrored(_bar("light", (0.3, 0.45), (1.1, 0.75), 0.18)),
        ("area", "dark", ((1.0, 0), (0.45, 0.55), (-0.35, 0.95), (-0.75, 0), (-0.35, -0.95),
                          (0.45, -0.55))),
        ("area", "body", ((0.8, 0), (0.35, 0.4), (-0.28, 0.7), (-0.55, 0), (-0.28, -0.7),
                          (0.35, -0.4))),
        _disc("light", 0.42, 0, 0.17),
    ),
    "spine_crawler": (
        ("area", "dark", _star(7, 1.4, 0.8)), ("area", "body", _star(7, 1.1, 0.66)),
        _bar("dark", (0, 0), (1.5, 0), 0.4), _bar("light", (0, 0), (1.45, 0), 0.2),
        _disc("dark", 0, 0, 0.42),
    ),
}  # fmt: skip
PLAIN: tuple[Shape, ...] = (_disc("dark", 0, 0, 1.0), _disc("body", 0, 0, 0.8))


def to_heading(dx: float, dy: float) -> int:
    """The number of the direction (dx, dy), 0 … ``HEADINGS`` - 1, counter-clockwise from east."""
    return round(math.atan2(dy, dx) / (2 * math.pi) * HEADINGS) % HEADINGS


@lru_cache(maxsize=4096)
def sprite(kind: str, team: int, heading: int, radius: float, fade: float = 0.0) -> Image.Image:
    """RGBA picture of a unit whose radius is that many pixels, its center in the middle.

    ``fade`` from 0 to 1 makes it grayer and clearer: for dead units.
    """
    half = math.ceil(radius * SPAN)
    colors = {**TEAMS[team], "white": WHITE, "blade": BLADE, "acid": ACID}
    turn = 2 * math.pi * heading / HEADINGS
    cos, sin = math.cos(turn), math.sin(turn)
    unit = radius * _FINE

    def at(point: tuple[float, float]) -> tuple[float, float]:
        x, y = point
        return (
            half * _FINE + (x * cos - y * sin) * unit,
            half * _FINE - (x * sin + y * cos) * unit,
        )

    image = Image.new("RGBA", (2 * half * _FINE,) * 2, (*TEAMS[team]["dark"], 0))
    draw = ImageDraw.Draw(image)
    for form, name, points in SHAPES.get(kind, PLAIN):
        color = (*colors[name], 255)
        if form == "disc":
            x, y = at(points[0])
            r = (points[1][0] - points[0][0]) * unit
            draw.ellipse((x - r, y - r, x + r, y + r), color)
        elif form == "bar":
            draw.line((at(points[0]), at(points[1])), color, max(1, round(points[2][0] * unit)))
        else:
            draw.polygon([at(point) for point in points], color)
    image = image.reduce(_FINE)
    return _faded(image, fade) if fade else image


@lru_cache(maxsize=64)
def shadow(radius: float) -> Image.Image:
    """RGBA shadow of a unit in the air."""
    half = math.ceil(radius * 1.2)
    image = Image.new("RGBA", (2 * half * _FINE,) * 2, (0, 0, 0, 0))
    middle, r = half * _FINE, radius * _FINE
    box = (middle - r, middle - 0.8 * r, middle + r, middle + 0.8 * r)
    ImageDraw.Draw(image).ellipse(box, (0, 0, 0, 110))
    return image.reduce(_FINE)


def paste(image: Image.Image, what: Image.Image, x: float, y: float) -> None:
    """Put a picture with its middle at a point."""
    image.paste(what, (round(x - what.width / 2), round(y - what.height / 2)), what)


def _faded(image: Image.Image, fade: float) -> Image.Image:
    red, green, blue, alpha = image.split()
    gray = image.convert("L").point(lambda value: value * 0.55)
    solid = Image.merge("RGB", (red, green, blue))
    mixed = Image.blend(solid, Image.merge("RGB", (gray,) * 3), min(1.0, 0.5 + fade))
    mixed.putalpha(alpha.point(lambda value: value * (1 - fade)))
    return mixed
