import { useState } from "react";
import { Button } from "../components/button";

/** Copies a command that asks the same question in a terminal. */
export function CopyCommand(props: { readonly command: string }) {
  const [state, setState] = useState<"" | "copied" | "refused">("");
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(props.command);
      setState("copied");
    } catch {
      // Without a secure context or permission: the command is shown, to be copied by hand.
      setState("refused");
    }
  }
  return (
    <>
      <Button onClick={copy}>{state === "copied" ? "Copied" : "Copy as command"}</Button>
      {state === "refused" && <code className="small">{props.command}</code>}
    </>
  );
}
