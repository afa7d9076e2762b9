import { type ReactNode, useEffect, useRef } from "react";
import { Button } from "./button";

/** A question before something that cannot be taken back. */
export function Confirm(props: {
  readonly title: string;
  readonly action: string;
  readonly confirm: () => void;
  readonly cancel: () => void;
  readonly children: ReactNode;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} className="dialog" aria-labelledby="confirm-title" onClose={props.cancel}>
      <h2 id="confirm-title">{props.title}</h2>
      <div>{props.children}</div>
      <div className="dialog-actions">
        <Button onClick={() => dialog.current?.close()}>Cancel</Button>
        <Button
          kind="danger"
          onClick={() => {
            props.confirm();
            dialog.current?.close();
          }}
        >
          {props.action}
        </Button>
      </div>
    </dialog>
  );
}
