// What `assay store find --json` prints.

export interface StorePlace {
  readonly place: string | null;
  readonly variable: string;
}

export interface StoredItem {
  readonly item: string;
  readonly kind: string;
  readonly name: string;
  readonly created_at: number | null;
  readonly pushed_at: number;
  readonly model: string | null;
  readonly engine: string | null;
  readonly accelerator: string | null;
  readonly workload: string | null;
  readonly verdict: string | null;
  readonly metric: string | null;
  readonly ratio: { readonly value: number; readonly lo: number; readonly hi: number } | null;
  readonly tags: readonly string[];
  readonly files: number | null;
  readonly bytes: number | null;
  readonly redacted: boolean | null;
  /** Why a run does not verify, where it was pushed nevertheless. */
  readonly unverified: string | null;
  readonly pushed_by: string | null;
  readonly manifest: string;
  readonly damage: string | null;
}

export interface StoredItems {
  readonly store: string;
  readonly total: number;
  readonly items: readonly StoredItem[];
}
