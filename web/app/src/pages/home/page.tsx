import { PageHead } from "../../components/page-head";

export default function Home() {
  return <PageHead title="What is that number made of?" />;
}
