// Cost against interactivity: plans by the limit of TPOT that they keep, and the front of the cheapest.

import { axis } from "../lab/pareto";
import { dollars, type LimitPlan } from "./front";

const WIDTH = 720;
const HEIGHT = 340;
const MARGIN = { left: 72, right: 16, top: 12, bottom: 44 };

export function FrontChart(props: {
  readonly plans: readonly LimitPlan[];
  /** The limit of TPOT that is asked for, in seconds. */
  readonly limit: number;
  readonly chosen: LimitPlan | null;
  readonly choose: (tokenLimit: number) => void;
}) {
  const { plans, chosen } = props;
  // Tokens a second that a reader is promised: more is better, and to the right.
  const speeds = [...plans.map((plan) => 1 / plan.tokenLimit), 1 / props.limit];
  const across = axis(speeds, MARGIN.left, WIDTH - MARGIN.right);
  const up = axis(
    plans.map((plan) => plan.usdPerHour),
    HEIGHT - MARGIN.bottom,
    MARGIN.top,
  );
  const best = plans.filter((plan) => plan.isBest);
  const at = (plan: LimitPlan) => [across.at(1 / plan.tokenLimit), up.at(plan.usdPerHour)] as const;
  const label = `Cost an hour against tokens a second: ${plans.length} plans, ${best.length} on the front`;
  return (
    <svg className="plan-chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      {across.ticks.map((tick) => (
        <g key={tick} transform={`translate(${across.at(tick)} 0)`}>
          <line className="plan-grid" y1={MARGIN.top} y2={HEIGHT - MARGIN.bottom} />
          <text y={HEIGHT - MARGIN.bottom + 16} textAnchor="middle">
            {Number(tick.toPrecision(3))}
          </text>
        </g>
      ))}
      {up.ticks.map((tick) => (
        <g key={tick} transform={`translate(0 ${up.at(tick)})`}>
          <line className="plan-grid" x1={MARGIN.left} x2={WIDTH - MARGIN.right} />
          <text x={MARGIN.left - 8} dy="0.35em" textAnchor="end">
            {dollars(tick)}
          </text>
        </g>
      ))}
      <line
        className="plan-limit"
        x1={across.at(1 / props.limit)}
        x2={across.at(1 / props.limit)}
        y1={MARGIN.top}
        y2={HEIGHT - MARGIN.bottom}
      />
      <polyline className="plan-front" points={best.map((plan) => at(plan).join(",")).join(" ")} />
      {[...plans.filter((plan) => !plan.isBest), ...best].map((plan) => {
        const [x, y] = at(plan);
        const isChosen = plan === chosen;
        return (
          // biome-ignore lint/a11y/noStaticElementInteractions: the sliders do the same by keyboard.
          <circle
            key={`${plan.server.gpu} ${plan.server.layout} ${plan.server.weight_dtype} ${plan.server.engine} ${plan.tokenLimit}`}
            className={isChosen ? "chosen" : plan.isBest ? "best" : "beaten"}
            cx={x}
            cy={y}
            r={isChosen ? 6 : plan.isBest ? 4.5 : 2.5}
            onClick={() => props.choose(plan.tokenLimit)}
          >
            <title>
              {`${plan.replicas} x ${plan.server.gpu} ${plan.server.layout}: ${plan.gpus} GPUs, ${dollars(plan.usdPerHour)} an hour, TPOT within ${Number((1e3 * plan.tokenLimit).toPrecision(3))} ms`}
            </title>
          </circle>
        );
      })}
      <text x={(MARGIN.left + WIDTH) / 2} y={HEIGHT - 6} textAnchor="middle">
        output tokens a second for each request, at least
      </text>
    </svg>
  );
}
