"""Questions about what lies below the pins of a GPU."""

from __future__ import annotations

from typing import Final

from assay.asking import physical_changes, physics
from assay.asking.intents.intent import RESOLVE, TRAIN, Intent, intent

_NODES: Final = "2 3 4 5 7 2nm 3nm 4nm 5nm 7nm nm n2 n3 n3e n4 n4p n5 n7 tsmc process node nodes"

_CHANGED: Final = (
    "what if happens happen effect impact change changes does do doubling halving double halve drops drop falls "
    "rises goes hotter colder warmer lower higher euv source power yield yields coolant cooling voltage volt volts "
    "supply wafer wafers price prices cost costs token tokens step steps time speed fast slow carbon co2 "
    "emissions energy watts die dies good gpu scanner vdd temperature run runs running"
)

INTENTS: Final[tuple[Intent, ...]] = (
    intent(
        name="physical-change",
        cue=(
            r"\beuv\b", r"\bsource power\b", r"\byields?\b", r"\bcoolant\b", r"\bvolt(?:s|age)\b",
            r"\bsupply\b", r"\bwafers?\b",
        ),
        answer=physical_changes.change,
        slots="accelerator factor yield_share kelvin volts wafer_price",
        nearest=TRAIN.format("econ.cost.per_token") + " --with packs/h100_floor",
        needs="factor|yield_share|kelvin|volts|wafer_price",
        lacks="model tokens rate gpus",
        words=_CHANGED,
    ),
    intent(
        name="physical-change",
        cue=(r"\ue007",),
        answer=physical_changes.change,
        slots="accelerator yield_share kelvin volts wafer_price",
        nearest=TRAIN.format("econ.cost.per_token") + " --with packs/h100_floor",
        needs="volts|kelvin",
        lacks="model tokens rate gpus",
        words=_CHANGED,
    ),
    intent(
        name="price-by-silicon",
        cue=(r"\b(?:price|cost)s?\b.*\b(?:from|by|out of) (?:its|the|their) (?:wafers?|silicon|sand|dies?)\b",),
        answer=physical_changes.price_by_silicon,
        slots="accelerator",
        nearest=TRAIN.format("econ.gpu.price") + " --with packs/h100_floor",
        words="price prices cost costs wafer wafers silicon sand die dies gpu",
    ),
    intent(
        name="wafer-emissions",
        cue=(
            r"\b(?:co2e?|carbon|emissions?|footprint)\b.*\bwafers?\b",
            r"\bwafers?\b.*\b(?:co2e?|carbon|emissions?|footprint|emit)\b",
        ),
        answer=physics.wafer_emissions,
        slots="",
        nearest=TRAIN.format("manufacturing.footprint.wafer"),
        words=f"{_NODES} co2 co2e carbon emissions emission footprint wafer wafers emit emits make making logic",
    ),
    intent(
        name="embodied",
        cue=(
            r"\bembodied\b",
            r"\b(?:co2e?|carbon|emissions?|footprint)\b.*\b(?:mak|manufactur|produc)(?:e|ing)\b",
            r"\b(?:mak|manufactur|produc)(?:e|ing)\b.*\b(?:co2e?|carbon|emissions?|footprint|emit)\b",
        ),
        answer=physics.embodied,
        slots="accelerator gpus node",
        nearest=TRAIN.format("carbon.gpu.embodied"),
        lacks="model tokens place days per_time",
        words=(
            "embodied carbon co2 co2e emissions footprint make making manufacture manufacturing produce "
            "producing emit emits manufactured"
        ),
    ),
    intent(
        name="density",
        cue=(r"\btransistors?\b.*\b(?:density|dense|mm2)\b", r"\bdensity\b.*\b(?:nm|n\d)",),
        answer=physics.density,
        slots="",
        nearest=TRAIN.format("manufacturing.process.density"),
        words=f"{_NODES} density dense transistor transistors logic",
    ),
    intent(
        name="droplets",
        cue=(r"\bdroplets?\b",),
        answer=physics.droplets,
        slots="accelerator",
        nearest=TRAIN.format("lithography.gpu.droplets")
        + " --with processes/n5 --with scanners/nxe_3600d",
        words="droplet droplets tin print prints printed euv hit fired",
    ),
    intent(
        name="wafer",
        cue=(
            r"\bwafers?\b.*\b(?:costs?|prices?|dies|chips)\b",
            r"\b(?:costs?|prices?|dies|chips|gpus)\b.*\bwafers?\b",
        ),
        answer=physics.wafer,
        slots="accelerator die_area defect_density",
        nearest=TRAIN.format("manufacturing.wafer.price"),
        words=f"{_NODES} wafer wafers price prices cost costs dies die chips good fit gross 300 mm defect density",
    ),
    intent(
        name="yield",
        cue=(r"\b(?:die|chip|wafer|manufacturing|defect)\b.*\byields?\b", r"\byield of\b",),
        answer=physics.die_yield,
        slots="accelerator die_area defect_density",
        nearest=TRAIN.format("manufacturing.die.yield"),
        words="yield die dies chip wafer manufacturing defect defects density good work",
    ),
    intent(
        name="reticle",
        cue=(r"\breticle\b",),
        answer=physics.reticle,
        slots="accelerator",
        nearest=TRAIN.format("manufacturing.reticle.area"),
        words="reticle limit area field scanner big large largest die share fraction fill fills full",
    ),
    intent(
        name="refresh",
        cue=(r"\brefresh(?:es|ing|ed)?\b.*\b(?:memory|hbm|dram|bandwidth|time|share)\b",
             r"\b(?:memory|hbm|dram|bandwidth|time|share)\b.*\brefresh(?:es|ing|ed)?\b"),
        answer=physics.refresh,
        slots="",
        nearest=RESOLVE.format("dram.refresh.share") + " --with memories/hbm3e",
        words="refresh refreshes refreshing refreshed memory hbm dram bandwidth share cost costs lost lose rows",
    ),
    intent(
        name="leakage",
        cue=(r"\bleakage\b", r"\bpower leaks?\b", r"\bleaks?\b.*\bpower\b"),
        answer=physics.leakage,
        slots="accelerator temperature",
        nearest=TRAIN.format("gpu.power.leakage"),
        words="leakage leak leaks power die static watt watts",
    ),
    intent(
        name="coolant",
        cue=(r"\bcoolant\b.*\b(?:temperature|hot|warm|cold)\b", r"\b(?:temperature|hot|warm|cold)\b.*\bcoolant\b"),
        answer=physics.coolant,
        slots="accelerator",
        nearest=TRAIN.format("training.step_time") + " --set 'gpu.coolant_temperature=318 K'",
        words="coolant temperature hot warm cold degrees",
    ),
    intent(
        name="shrink",
        cue=(r"\b[23457] ?nm\b", r"\b(?:die|process|node) shrink\b", r"\bshrink to\b"),
        answer=physics.shrink,
        slots="accelerator",
        nearest=TRAIN.format("econ.cost.per_token") + " --with processes/n2",
        words=(
            f"{_NODES} shrink die dies area cost costs price step steps time speed fast slow power watt watts "
            "energy carbon emissions co2 training effect save saves change changes moving moved cheaper"
        ),
    ),
)  # fmt: skip
"""The words of one process, scanner or memory; those of fewer meanings come first."""
