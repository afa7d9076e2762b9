/** What this machine can hear with and speak with. */
export interface Installed {
  readonly models: readonly string[];
  readonly speaks: boolean;
  readonly voices: readonly string[];
  readonly voice: string;
}
