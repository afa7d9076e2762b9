"""Questions about figures of silicon, light and heat, each a variable of the stack."""

from __future__ import annotations

from typing import Final

from assay.asking import silicon
from assay.asking.intents.intent import RESOLVE, TRAIN, Answer, Intent, intent

_EUV: Final = "euv light scanner lithography smallest one exposure source"
_OF_LIGHT: Final = (
    ("photon-energy", r"\bphotons?\b.*\benergy\b|\benergy\b.*\bphotons?\b", "lithography.photon_energy", "wavelength",
     "photon photons energy ev electronvolts"),
    ("photons", r"\bphotons?\b.*\b(?:nm ?2|square (?:nm|nanomet\w+)|area)\b",
     "lithography.resist.photons_by_area", "dose wavelength",
     "photon photons square nm nm2 2 nanometer nanometers area dose"),
    ("shot-noise", r"\b(?:shot|photon)[ -]noise\b", "lithography.resist.noise", "dose wavelength feature",
     "shot photon noise square feature features contact contacts via hole pixel dose resist"),
    ("resolution", r"\b(?:resolution|half[ -]pitch)\b", "lithography.optics.resolution",
     "wavelength aperture process_factor", "resolution half pitch print prints printed"),
)  # fmt: skip
_OF_TRANSISTORS: Final = (
    ("landauer", r"\blandauer\b|\beras(?:e|es|ing)\b.*\bbits?\b", "timing.erasure",
     "landauer limit energy erase erasing bit bits least minimum"),
    ("thermal-voltage", r"\bthermal voltage\b|\bkt/q\b", "transistor.thermal_voltage", "thermal voltage kt q"),
    ("swing", r"\bsub[ -]?threshold (?:swing|slope)\b", "transistor.swing",
     "sub threshold subthreshold swing slope transistor decade mv mv/decade"),
)  # fmt: skip
_OF_PACKAGES: Final = (
    ("stacks", r"\bstacks\b", "hbm.stacks", "hbm memory stacks"),
    ("stack-bandwidth", r"\bstack\b.*\bbandwidth\b|\bbandwidth\b.*\bstack\b", "hbm.stack_bandwidth",
     "hbm hbm3e memory stack bandwidth peak"),
    ("access-energy", r"\b(?:hbm|dram|memory)\b.*\b(?:energy|joules?|pj)\b.*\bbit\b"
     r"|\b(?:energy|joules?|pj)\b.*\bbit\b.*\b(?:hbm|dram|memory)\b",
     "hbm.access_energy", "hbm dram memory energy pj bit access traffic read reading"),
    ("die-area", r"^(?!.*\bshrink).*(?:\bdie (?:area|size)\b|\b(?:area|size) of (?:the |an? )?(?:\ue001+ )?die\b)",
     "manufacturing.die.area", "die area size compute mm2"),
)  # fmt: skip
_LACKS: Final = "model tokens rate concurrency gpus nodes factor days per_time"


def _row(
    name: str, cue: str, answer: Answer, slots: str, nearest: str, words: str, needs: str = ""
) -> Intent:
    return intent(
        name=name, cue=(cue,), answer=answer, slots=slots, nearest=nearest, words=words, needs=needs,
        lacks=_LACKS,
    )  # fmt: skip


INTENTS: Final[tuple[Intent, ...]] = (
    *(
        _row(
            name, cue, silicon.of_euv(target, slots), slots, TRAIN.format(target), f"{_EUV} {words}"
        )
        for name, cue, target, slots, words in _OF_LIGHT
    ),
    *(
        _row(name, cue, silicon.of_transistor(target), "temperature", TRAIN.format(target), words)
        for name, cue, target, words in _OF_TRANSISTORS
    ),
    *(
        _row(name, cue, silicon.of_package(target), "accelerator", RESOLVE.format(target), words)
        for name, cue, target, words in _OF_PACKAGES
    ),
    _row(
        "transistors",
        r"\btransistors?\b(?!.*\b(?:density|dense)\b)",
        silicon.transistors,
        "accelerator",
        RESOLVE.format("manufacturing.die.transistors"),
        "transistor transistors count many",
        "accelerator",
    ),
    _row(
        "die-temperature",
        r"\b(?:junction|die|chip|core) (?:temp|temperature)\b|\bhow hot\b(?!.*\bcoolant\b)",
        silicon.die_temperature,
        "accelerator kelvin",
        TRAIN.format("gpu.temperature"),
        "junction die chip core temp temperature hot coolant inlet supply air water get gets load",
    ),
    _row(
        "heat-flux",
        r"\bheat flux\b|\b(?:power|heat) density\b",
        silicon.of_h100("delivery.flux"),
        "accelerator",
        TRAIN.format("delivery.flux") + " --with packs/h100_floor",
        "heat flux power density die w/cm2 w cm2",
        "accelerator",
    ),
)
"""Names, the words that ask for them, the variables, the quantities that may be given, and further words."""
