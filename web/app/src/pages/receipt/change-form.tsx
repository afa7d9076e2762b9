import { type FormEvent, useEffect, useRef, useState } from "react";
import { Button } from "../../components/button";

/** One assumption, to be changed in place; a distribution such as 450..550 W is fine too. */
export function ChangeForm(props: {
  readonly name: string;
  readonly value: string;
  readonly unit: string;
  /** What the button says; without it there is a difference to see. */
  readonly action?: string;
  readonly apply: (text: string) => void;
  readonly close: () => void;
}) {
  const [text, setText] = useState(props.value);
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => box.current?.select(), []);

  function submit(event: FormEvent): void {
    event.preventDefault();
    if (text.trim()) props.apply(text.trim());
  }

  return (
    <form className="change-form" onSubmit={submit}>
      <label>
        <span className="unseen">New value of {props.name}</span>
        <input
          ref={box}
          className="input mono"
          value={text}
          placeholder={props.unit === "1" ? "value" : `value in ${props.unit}`}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") props.close();
          }}
        />
      </label>
      <Button kind="primary" type="submit" disabled={!text.trim()}>
        {props.action ?? "See the difference"}
      </Button>
      <Button kind="quiet" onClick={props.close}>
        Cancel
      </Button>
    </form>
  );
}
