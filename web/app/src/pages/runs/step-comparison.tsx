// A step from its floor up, and node by node: predicted beside observed.

import { useState } from "react";
import { Card } from "../../components/card";
import { Empty } from "../../components/states";
import { Term as Word } from "../../components/term";
import { StepLanes } from "./step-lanes";
import type { StepNode } from "./step-nodes";
import { StepTable } from "./step-table";
import type { Term } from "./types";
import { Waterfall } from "./waterfall";

export function StepComparison(props: {
  /** Which step it is. */
  readonly what: string;
  readonly terms: readonly Term[];
  readonly observedNs: number;
  readonly predicted: { readonly ns: number; readonly lo: number; readonly hi: number } | null;
  readonly nodes: readonly StepNode[];
  /** What is said where there are no nodes. */
  readonly absent: string;
  readonly note?: string | undefined;
}) {
  const [term, setTerm] = useState<string | null>(null);
  const [operation, setOperation] = useState<string | null>(null);
  const hasNodes = props.nodes.length > 0;
  return (
    <div className="stack">
      <Card
        title={props.predicted ? "Predicted beside observed" : "Where the step's time goes"}
        about={
          <>
            {props.what}
            {props.predicted && (
              <>
                , from its <Word>floor</Word> up
              </>
            )}
            .{hasNodes && " A term shows which nodes it is made of."}
          </>
        }
      >
        <Waterfall
          terms={props.terms}
          observedNs={props.observedNs}
          predicted={props.predicted}
          chosen={term}
          choose={hasNodes ? (name) => setTerm(name === term ? null : name) : undefined}
        />
        {props.note && <p className="muted small">{props.note}</p>}
      </Card>
      <Card
        title="Node by node"
        about="The graph that the planner predicts for this step, and what ran for each of its nodes."
      >
        {hasNodes ? (
          <>
            <StepLanes nodes={props.nodes} operation={operation} term={term} />
            <StepTable
              nodes={props.nodes}
              operation={operation}
              term={term}
              choose={setOperation}
            />
          </>
        ) : (
          <Empty title="No predicted graph">{props.absent}</Empty>
        )}
      </Card>
    </div>
  );
}
