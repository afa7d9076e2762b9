// The targets of built-in scenarios: value, interval, and how they move with an input.

import { useState } from "react";
import { useApi } from "../../api/use-api";
import { Card } from "../../components/card";
import { Figure } from "../../components/figure";
import { Spark } from "../../components/spark";
import { Shown } from "../../components/states";
import { Tabs } from "../../components/tabs";
import { shown } from "../../design/quantity";
import { href } from "../../shell/route";
import type { Headlines } from "./types";

const SCENARIOS = [
  { name: "llama3_8b_h200_serving", title: "Serving Llama 3 8B on H200" },
  { name: "llama3_8b_8_h100_training", title: "Training Llama 3 8B on 8 H100" },
];

export function HeadlineTargets() {
  const [chosen, choose] = useState(SCENARIOS[0]!.name);
  const loaded = useApi<Headlines>(`headlines/${chosen}`);
  return (
    <Card className="headlines">
      <Tabs
        label="Scenarios"
        chosen={chosen}
        choose={choose}
        tabs={SCENARIOS.map((one) => ({ name: one.name, title: one.title }))}
      >
        <Shown of={loaded} what="Resolving the targets with their intervals">
          {(data) => <Targets data={data} />}
        </Shown>
      </Tabs>
    </Card>
  );
}

function Targets({ data }: { readonly data: Headlines }) {
  const { spark } = data;
  const middle = spark ? Math.floor(spark.at.length / 2) : 0;
  return (
    <>
      <p className="muted small headline-about">{data.description}</p>
      <div className="headline-grid">
        {data.targets.map((one) => (
          <a
            key={one.target}
            className="headline"
            href={href("receipt", [one.target], { preset: data.preset })}
          >
            <Figure
              label={one.label}
              quantity={
                one.value === null
                  ? null
                  : {
                      value: one.value,
                      unit: one.unit,
                      lo: one.lo,
                      hi: one.hi,
                      isPredicted: true,
                    }
              }
              missing={`${one.missing.length} inputs are missing`}
            >
              {spark?.values[one.target] && (
                <Spark
                  values={spark.values[one.target]!}
                  at={middle}
                  width={150}
                  label={`${one.label} while ${spark.meaning} goes from half to twice its value`}
                />
              )}
            </Figure>
          </a>
        ))}
      </div>
      {spark && (
        <p className="muted small">
          Lines: from half to twice {shown({ value: spark.value, unit: spark.unit })} (
          {spark.meaning}
          ). Ranges are 90 % intervals.
        </p>
      )}
    </>
  );
}
