import { useState } from "react";
import { Button } from "./button";

/** A command that gives the same answer in a terminal, and a button that copies it. */
export function CopyCommand(props: { readonly command: string }) {
  const [said, setSaid] = useState<string | null>(null);
  return (
    <div className="command">
      <code>{props.command}</code>
      <Button
        kind="quiet"
        aria-live="polite"
        onClick={() => {
          navigator.clipboard.writeText(props.command).then(
            () => setSaid("Copied"),
            () => setSaid("Select the text to copy it"),
          );
        }}
      >
        {said ?? "Copy"}
      </Button>
    </div>
  );
}
