"""The options of a command that its nodes need, in a form for JSON: for nodes, and in fleet.json for --resume."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bufferlab.execute.probes.block_trace_probe import BlockTraceAsked
from bufferlab.execute.probes.page_trace_probe import NOTHING_SAID, TraceWish

if TYPE_CHECKING:
    from bufferlab.execute.sweep import SweepOptions


@dataclass(frozen=True)
class NodeOptions:
    """The fields of `SweepOptions` that the user sets on a cluster: all except the blocks and the wait for a device."""

    data_dir: str | None = None
    share_device: bool = False
    keeps_restored: bool = False
    page_trace: TraceWish = NOTHING_SAID
    block_trace: BlockTraceAsked | None = None

    @classmethod
    def of(cls, options: SweepOptions) -> NodeOptions:
        """Return the options of a command that its nodes need.

        The command must not change a server: `--ray` refuses already running servers.
        """
        return cls(
            data_dir=str(options.data_dir) if options.data_dir else None,
            share_device=options.share_device,
            keeps_restored=options.keeps_restored,
            page_trace=options.page_trace,
            block_trace=next((probe for probe in options.probes if isinstance(probe, BlockTraceAsked)), None),
        )

    def for_block(self, block: int, device_wait_s: float) -> SweepOptions:
        """Return the options of the sweep that does one block, which is counted from 0."""
        from bufferlab.execute.sweep import SweepOptions  # Import late, because it loads the models too.

        return SweepOptions(
            data_dir=Path(self.data_dir) if self.data_dir else None,
            share_device=self.share_device,
            probes=(self.block_trace,) if self.block_trace else (),
            page_trace=self.page_trace,
            keeps_restored=self.keeps_restored,
            blocks=(block,),
            device_wait_s=device_wait_s,
        )
