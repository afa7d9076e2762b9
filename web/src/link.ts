// The part of an address after #: which part of a trace a link shows.

export interface Link {
  readonly step?: number;
  readonly from?: number;
  readonly to?: number;
  readonly search?: string;
}

/** Read `#step=12`, `#from=1000&to=5000` (nanoseconds from the start), `&search=attention`. */
export function readLink(hash: string): Link {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const numbers = ["step", "from", "to"].flatMap((name) => {
    const text = fields.get(name);
    const value = Number(text);
    return text && Number.isFinite(value) ? [[name, value]] : [];
  });
  const search = fields.get("search");
  return { ...Object.fromEntries(numbers), ...(search ? { search } : {}) };
}

export function writeLink(link: Link): string {
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(link)) fields.set(name, String(value));
  return `#${fields}`;
}
