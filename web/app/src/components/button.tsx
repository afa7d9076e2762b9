import type { ButtonHTMLAttributes } from "react";

type Kind = "plain" | "primary" | "danger" | "quiet";

export function Button(props: ButtonHTMLAttributes<HTMLButtonElement> & { readonly kind?: Kind }) {
  const { kind = "plain", className = "", ...rest } = props;
  return <button type="button" className={`button ${kind} ${className}`} {...rest} />;
}
