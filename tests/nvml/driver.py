"""A driver without a GPU: builds the fake library, and writes the file that says what it answers.

Must not know the agent: what a test expects of it stands in the test.
"""

import copy
import itertools
import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests import machine

SOURCE = Path(__file__).with_name("fake_nvml.c")
MIB = 1024**2
LINKS = 18

# What drivers before R510 and R525 do not have yet (reference: symbols of old nvidia-ml-py wheels).
BEFORE_R510 = ("nvmlDeviceGetMemoryInfo_v2",)
BEFORE_R525 = (
    *("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3"),
    *("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetCurrentClocksEventReasons"),
    *("nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetTemperatureV", "nvmlDeviceGetMarginTemperature"),
    "nvmlDeviceGetSramEccErrorStatus",
)


class Libraries:
    """Builds of the fake, each without some symbols, as an older driver."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._built: dict[frozenset[str], Path] = {}

    def without(self, symbols: Iterable[str] = ()) -> Path:
        missing = frozenset(symbols)
        if missing not in self._built:
            self._built[missing] = self._build(missing)
        return self._built[missing]

    def _build(self, missing: frozenset[str]) -> Path:
        place = self._folder / str(len(self._built))
        place.mkdir()
        library = place / "libnvidia-ml.so.1"
        command = [machine.find("gcc"), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-format-truncation"]
        command += ["-fPIC", "-shared", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(library), str(SOURCE)]
        if missing:
            (place / "symbols").write_text("{ local: " + " ".join(f"{name};" for name in sorted(missing)) + " };\n")
            command.append(f"-Wl,--version-script={place / 'symbols'}")
        subprocess.run(command, check=True, timeout=60)
        return library


@pytest.fixture(scope="session")
def libraries(tmp_path_factory) -> Libraries:
    machine.find("gcc")
    return Libraries(tmp_path_factory.mktemp("nvml"))


def h100(index: int) -> dict[str, Any]:
    """An idle H100 of a healthy HGX board."""
    return {
        "uuid": f"GPU-{index:08x}-6d3c-22ed-0ec8-d3b864870b8b",
        "name": "NVIDIA H100 80GB HBM3",
        "serial": f"16544230{index:05d}",
        "pci": f"00000000:{0x1B + index * 8:02X}:00.0",
        "minor": index,
        "memory": {"total": 85_520_809_984, "reserved": 595_000_000, "used": 5_000_000},
        "utilization": {"gpu": 0, "memory": 0},
        "encoder": 0,
        "decoder": 0,
        "temperature": 31 + index,
        "margin": 56 - index,
        "thresholds": {"0": 92, "1": 87, "2": 95, "3": 85},
        "power": 71_250,
        "power_limit": 700_000,
        "energy": 4_335_301_032,
        "clocks": {"sm": 345, "memory": 2619},
        "clocks_max": {"sm": 1980, "memory": 2619},
        "reasons": 1,
        "ecc_mode": [1, 1],
        "ecc": {"corrected": 0, "uncorrected": 0, "corrected_ever": 3, "uncorrected_ever": 0},
        "sram_exceeded": 0,
        "remapped": [0, 0, 0, 0],
        "fields": {"82": 42, "91": LINKS, "38": 0, "45": 0, "52": 0, "59": 0, "230": 0, "194": -2, "186": 71_500},
        "nvlinks": [1] * LINKS,
        "pcie": {"generation": 5, "generation_max": 5, "width": 16, "width_max": 16, "replays": 0},
        "persistence": 1,
        "fabric": {"state": 3, "status": 0, "clique": 0, "health": 1},
        "processes": [],
        "graphics": [],
        "mps": [],
        "mig": [0, 0],
    }


class Driver:
    """The file behind one library. `answers` may be changed while the agent runs; `write` makes it so."""

    def __init__(self, folder: Path, gpus: int = 8) -> None:
        self.file = folder / "driver.json"
        self.trace = folder / "driver.trace"
        self.answers: dict[str, Any] = {
            "driver": "550.144.03",
            "cuda": 12040,
            "nvml": "12.550.144.03",
            "devices": [h100(index) for index in range(gpus)],
        }
        self._numbers = itertools.count()
        self.write()

    @property
    def gpus(self) -> list[dict[str, Any]]:
        return self.answers["devices"]

    def write(self) -> None:
        fresh = self.file.with_suffix(f".{next(self._numbers)}")
        fresh.write_text(json.dumps(self.answers))
        fresh.replace(self.file)

    def change(self, gpu: int, **answers: Any) -> None:
        """Give one GPU other answers; None takes one away, so that it is not supported."""
        self.gpus[gpu].update(copy.deepcopy(answers))
        self.write()

    def environment(self, *, traced: bool = False) -> dict[str, str]:
        """What the process that loads the library has to have."""
        return os.environ | {"NVML_FAKE": str(self.file)} | ({"NVML_FAKE_TRACE": str(self.trace)} if traced else {})

    def calls(self) -> list[tuple[int, str]]:
        """Every call so far: process id, and `devices.3.power` or `init`."""
        text = self.trace.read_text() if self.trace.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last one may be half written
        return [(int(pid), what) for pid, what in (line.split(" ", 1) for line in lines)]
