import { useState } from "react";
import { useApi } from "../../api/use-api";
import { PageHead } from "../../components/page-head";
import { Empty, Shown } from "../../components/states";
import { Listening } from "./listening";
import { meta } from "./meta";
import { Speaking } from "./speaking";
import type { Installed } from "./types";
import "./speech.css";

export default function SpeechPage() {
  const installed = useApi<Installed>("speech");
  const [text, setText] = useState("");
  return (
    <>
      <PageHead title={meta.title} about={meta.about} />
      <Shown of={installed} what="Looking for models">
        {(found) => (
          <div className="stack">
            {found.models.length > 0 ? (
              <Listening models={found.models} heard={setText} />
            ) : (
              <Empty title="No model that hears">
                <code>assay pull whisper-tiny.en</code> downloads one.
              </Empty>
            )}
            {found.speaks ? (
              <Speaking installed={found} text={text} setText={setText} />
            ) : (
              <Empty title="No model that speaks">
                <code>assay pull kokoro</code> downloads one.
              </Empty>
            )}
          </div>
        )}
      </Shown>
    </>
  );
}
