// Parts of the page by themselves, with a wallet of their own in this browser, at doubles of a server that are in this script.

import { readTail } from "../../../protocol/web/index.mjs";
import { Participant } from "../../../client/askance_client/page/participant.mjs";
import { Wallet } from "../../../client/askance_client/page/wallet.mjs";

/** Two tabs of one browser, each told its own past of one study, at once: for what each refuses it. */
globalThis.toldApart = async ({ study, bulletins }) => {
  const wallet = await Wallet.open("told apart");
  const tabs = bulletins.map((bulletin) => {
    const server = { entries: async () => readTail(new TextEncoder().encode(bulletin)) };
    return new Participant(server, wallet, study, "");
  });
  for (const tab of tabs) await tab.refresh();
  const refusals = await Promise.all(tabs.map((tab) => tab.refuse()));
  await wallet.forget();
  return refusals.map((refusal) => refusal?.code ?? null);
};
