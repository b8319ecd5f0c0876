/* SPDX-License-Identifier: Apache-2.0 */
/* Sphinx lists a page once for its title, once for each section whose heading matches, and once for its text: here each
 * page is listed once, at its best place. */
document.addEventListener("DOMContentLoaded", () => {
    const results = document.getElementById("search-results");
    const seen = new Set();

    if (results === null)
        return;
    new MutationObserver(() => {
        for (const item of results.querySelectorAll("ul.search > li:not([data-seen])")) {
            const link = item.querySelector("a");
            const page = link === null ? "" : link.pathname;

            item.dataset.seen = "yes";
            if (seen.has(page))
                item.hidden = true;
            seen.add(page);
        }
    }).observe(results, { childList: true, subtree: true });
});
