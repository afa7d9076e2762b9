import type { ReactNode } from "react";
import { useApi } from "../../api/use-api";
import { Empty, Shown } from "../../components/states";
import type { RunDetails, RunReport } from "./types";

const REPORT = "report.json";

/** What `children` make of a run's report; a run under way, or one that was killed, has none. */
export function ReportShown(props: {
  readonly run: RunDetails;
  readonly children: (report: RunReport) => ReactNode;
}) {
  const { run } = props;
  const hasReport = run.files.includes(REPORT);
  const report = useApi<RunReport>(hasReport ? `runs/${run.run}/report` : null);
  if (!hasReport) {
    return (
      <Empty title="No report">
        {run.status === "under way"
          ? "The run writes it when it ends."
          : "The run ended before it could write one; its journal has what was measured."}
      </Empty>
    );
  }
  return <Shown of={report}>{props.children}</Shown>;
}
