// Every claim with the rows it is derived from, and a button that derives all of them again.

import { useState } from "react";
import { get } from "../../api/client";
import { Button } from "../../components/button";
import { Card } from "../../components/card";
import { CopyCommand } from "../../components/copy";
import { ErrorState, Loading } from "../../components/states";
import { Table } from "../../components/table";
import { Tag } from "../../components/tag";
import { ReportShown } from "./report-shown";
import type { Claim, RunDetails, Verification } from "./types";

export function Evidence({ run }: { readonly run: RunDetails }) {
  return (
    <div className="stack">
      <Verify run={run.run} journal={run.journal.status} />
      <Card title="Claims" about="Each figure, and the rows and rule that it follows from.">
        <ReportShown run={run}>
          {({ claims }) => (
            <Table<Claim>
              label="Claims"
              rows={claims}
              rowKey={(one) => one.name}
              limit={40}
              columns={[
                { name: "statement", title: "Claim", cell: (one) => one.statement },
                {
                  name: "evidence",
                  title: "Derived from",
                  cell: (one) =>
                    one.evidence.map((proof) => (
                      <div key={`${proof.file}${proof.rule}`} className="small">
                        <code>{proof.file}</code> <span className="muted">{proof.rule}</span>
                      </div>
                    )),
                },
              ]}
            />
          )}
        </ReportShown>
      </Card>
    </div>
  );
}

function Verify(props: { readonly run: string; readonly journal: string }) {
  const [found, setFound] = useState<Verification | "working" | Error | null>(null);
  function verify(): void {
    setFound("working");
    get<Verification>(`runs/${props.run}/verification`).then(setFound, setFound);
  }
  return (
    <Card
      title="Evidence chain"
      about={`Journal: ${props.journal}. Every record holds the hash of the one before it.`}
      actions={
        <Button kind="primary" onClick={verify} disabled={found === "working"}>
          Verify
        </Button>
      }
    >
      {found === null && (
        <p className="muted">
          Derives every claim again from the measured rows, and checks the journal's chain and the
          SHA-256 of every file.
        </p>
      )}
      {found === "working" && <Loading what="Deriving every claim again" />}
      {found instanceof Error && <ErrorState error={found} title="Not verified" />}
      {found && found !== "working" && !(found instanceof Error) && <Outcome found={found} />}
      <CopyCommand command={`assay verify-report ${props.run}`} />
    </Card>
  );
}

function Outcome({ found }: { readonly found: Verification }) {
  const failed = found.checks.filter((one) => !one.passed);
  return (
    <div className="verified" role="status">
      <p>
        <Tag tone={found.verified ? "good" : "bad"}>
          {found.verified ? "verified" : "not verified"}
        </Tag>{" "}
        {found.checks.length - failed.length} of {found.checks.length} checks hold.
      </p>
      {failed.length > 0 && (
        <ul className="plain-list">
          {failed.map((one) => (
            <li key={`${one.name}${one.statement}`}>
              <code>{one.name}</code>: {one.statement}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
