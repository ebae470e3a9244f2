"use strict";
// Keeps the table of adaptations fresh. Without it the page refreshes itself every 15 seconds.
(function () {
  const live = document.getElementById("live");
  if (!live || !window.EventSource) return;
  const stream = new EventSource("/runs/events");
  let fresh = 0;
  stream.addEventListener("open", function () { live.textContent = "Live: changes show by themselves."; });
  stream.addEventListener("error", function () { live.textContent = "The connection is gone; trying again."; });
  stream.addEventListener("full", function () { stream.close(); live.textContent = "Too many readers follow; reload for news."; });
  stream.addEventListener("runs", function (event) {
    for (const run of JSON.parse(event.data)) {
      const row = document.querySelector('tr[data-run="' + CSS.escape(run.id) + '"]');
      if (!row) { fresh += 1; continue; }
      const state = row.querySelector(".status");
      if (state.textContent !== run.state) { state.textContent = run.state; state.className = "status " + run.state; }
      row.querySelector(".stage").textContent = run.stage || "–";
      row.querySelector(".attempt").textContent = run.attempt;
      row.querySelector(".reason").textContent = (run.reason || "").slice(0, 300);
    }
    const news = document.getElementById("news");
    if (news && !news.dataset.counted) { news.dataset.counted = "1"; fresh = 0; }
    if (news && fresh) { news.hidden = false; news.querySelector("span").textContent = fresh; }
  });
})();
