// Puts an interactive chart in the place of each picture. A chart that fails leaves its picture as it is.
for (const holder of document.querySelectorAll("script.specification")) {
  const picture = document.getElementById(holder.dataset.for);
  const stage = document.createElement("div");
  const options = { actions: false, renderer: "svg", ast: true };
  vegaEmbed(stage, JSON.parse(holder.textContent), options)
    .then(() => picture.replaceChildren(stage))
    .catch((error) => console.error(error));
}
// A link to a folded section opens it.
function unfold() {
  document.getElementById(location.hash.slice(1))?.querySelector("details")?.setAttribute("open", "");
}
addEventListener("hashchange", unfold);
unfold();
