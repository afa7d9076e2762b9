// The frame of every page: navigation, search, theme, and the page of the address.

import { Component, type ReactNode, Suspense, useEffect, useRef } from "react";
import { useRefused } from "../api/session";
import { Empty, ErrorState, Loading } from "../components/states";
import { PAGES } from "../routes";
import { Navigation } from "./navigation";
import { Palette, usePalette } from "./palette";
import { href, useRoute } from "./route";
import { TokenForm } from "./token-form";

class Guard extends Component<{ readonly children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (!error) return this.props.children;
    return <ErrorState error={error} title="This page failed" retry={() => location.reload()} />;
  }
}

export function App() {
  const route = useRoute();
  const main = useRef<HTMLElement>(null);
  const page = PAGES.find((one) => one.path === route.page);
  const isFirst = useRef(true);
  const isRefused = useRefused();
  const [isPaletteOpen, openPalette] = usePalette();
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new page takes the focus.
  useEffect(() => {
    if (!isFirst.current) main.current?.focus();
    isFirst.current = false;
    scrollTo(0, 0);
  }, [route.page]);
  return (
    <>
      <a
        className="skip"
        href={location.hash || "#/"}
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the page
      </a>
      <div className="frame">
        <Navigation current={route.page} search={() => openPalette(true)} />
        <main className="page" ref={main} tabIndex={-1}>
          {isRefused ? (
            <TokenForm />
          ) : (
            <Guard key={route.page}>
              <Suspense fallback={<Loading />}>
                {page ? (
                  <page.Component />
                ) : (
                  <Empty title={`There is no page "${route.page}"`}>
                    <a href={href("")}>Home</a>
                  </Empty>
                )}
              </Suspense>
            </Guard>
          )}
        </main>
      </div>
      {isPaletteOpen && !isRefused && <Palette close={() => openPalette(false)} />}
    </>
  );
}
