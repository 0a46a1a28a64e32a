/** Sends files and reports the progress, which `fetch` cannot do. */

import { address, describeError, session } from "./api.js";

/**
 * Send a form or a file.
 * @param {string} path such as `/api/files`
 * @param {FormData | Blob} body
 * @param {{ onprogress?: (part: number) => void, signal?: AbortSignal }} [options] `part`: from 0 to 1
 * @returns {Promise<any>} the body of the answer
 */
export function upload(path, body, { onprogress, signal } = {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const fail = () => reject(describeError(request.status, request.responseText));
    request.open("POST", address(path));
    request.setRequestHeader("Accept", "application/json");
    request.setRequestHeader("X-XSRF-Token", session.peek()?.xsrf ?? "");
    request.upload.addEventListener("progress", (event) => event.lengthComputable && onprogress?.(event.loaded / event.total));
    request.addEventListener("load", () =>
      (request.status >= 200 && request.status < 300 ? resolve(JSON.parse(request.responseText)) : fail()));
    request.addEventListener("error", fail);
    request.addEventListener("abort", () => reject(new DOMException("The upload was cancelled", "AbortError")));
    signal?.addEventListener("abort", () => request.abort());
    request.send(body);
  });
}
