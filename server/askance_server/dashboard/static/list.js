// The list of studies: looked at again every few seconds, while somebody looks at it.

import { refresh } from "./refresh.js";

const EVERY = 4000;

setInterval(() => {
  if (document.visibilityState === "visible") refresh();
}, EVERY);
