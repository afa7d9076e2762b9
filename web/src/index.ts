// What other pages use of the timeline.

export { type Blocks, documentBlocks, fromBase64, inflate } from "./blocks";
export type { ColorMode, Theme } from "./colors";
export { type Description, TimelineData } from "./data";
export { Timeline, type TimelineOptions } from "./timeline";
