import { useApi } from "../../api/use-api";
import { Card } from "../../components/card";
import { Empty, Shown } from "../../components/states";
import { href } from "../../shell/route";
import { RunTable } from "../runs/run-table";
import type { RunList } from "../runs/types";

export function RecentRuns() {
  const loaded = useApi<RunList>("runs");
  return (
    <Card title="Recent runs" actions={<a href={href("runs")}>All runs</a>}>
      <Shown of={loaded}>
        {({ runs }) =>
          runs.length ? (
            <RunTable runs={runs.slice(0, 5)} />
          ) : (
            <Empty title="No runs yet">
              <code>assay run</code> makes a small model serve faster on this machine, with proof,
              in about three minutes.
            </Empty>
          )
        }
      </Shown>
    </Card>
  );
}
