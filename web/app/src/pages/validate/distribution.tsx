// How the errors spread: bars of counts, in-sample and unseen apart.

import { BINS, histogram } from "./points";
import type { Point } from "./types";

export function Distribution(props: { readonly points: readonly Point[] }) {
  const fitted = histogram(props.points.filter(({ row }) => row.in_sample));
  const unseen = histogram(props.points.filter(({ row }) => !row.in_sample));
  const most = Math.max(...fitted.map((count, bin) => count + unseen[bin]), 1);
  return (
    <>
      <table className="table validate-bins">
        <thead>
          <tr>
            <th scope="col">Error</th>
            <th scope="col">Figures</th>
            <th scope="col" className="number">
              Count
            </th>
          </tr>
        </thead>
        <tbody>
          {fitted.map((count, bin) => (
            <tr key={labelOf(bin)}>
              <th scope="row">{labelOf(bin)}</th>
              <td className="validate-bar-cell">
                <span
                  className="validate-bar in-sample"
                  style={{ width: `${(100 * count) / most}%` }}
                />
                <span
                  className="validate-bar unseen-figure"
                  style={{ width: `${(100 * unseen[bin]) / most}%` }}
                />
              </td>
              <td className="number">{count + unseen[bin]}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className="validate-legend small">
        <span className="validate-key in-sample" aria-hidden="true" /> in-sample: the figure entered
        a fit <span className="validate-key unseen-figure" aria-hidden="true" /> entered no fit
      </p>
    </>
  );
}

function labelOf(bin: number): string {
  const text = (end: number) => `${end > 0 ? "+" : ""}${Math.round(100 * end)} %`;
  if (bin === 0) return `below ${text(BINS[0])}`;
  if (bin === BINS.length) return `above ${text(BINS.at(-1)!)}`;
  return `${text(BINS[bin - 1])} to ${text(BINS[bin])}`;
}
