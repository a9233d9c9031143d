// Puts an interactive chart in the place of each picture. A chart that fails leaves its picture as it is.
function draw(specifications) {
  const options = { actions: false, renderer: "svg", ast: true };
  for (const [name, specification] of Object.entries(specifications)) {
    const stage = document.createElement("div");
    vegaEmbed(stage, specification, options)
      .then(() => document.getElementById(`chart-${name}`).replaceChildren(stage))
      .catch((error) => console.error(error));
  }
}
// The charts' data and library are packed, because they are larger than all the rest of the page.
function unpacked(holder) {
  const bytes = Uint8Array.from(atob(holder.textContent), (byte) => byte.codePointAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")));
}
const library = document.getElementById("library");
if (library && window.DecompressionStream) {
  const specifications = unpacked(document.getElementById("specifications")).json();
  addEventListener("vega", () => specifications.then(draw));
  unpacked(library).text().then((program) => {
    const script = document.createElement("script");
    script.type = "module";
    script.textContent = program;
    document.head.append(script);
  });
}
// A link to a folded section opens it.
function unfold() {
  document.getElementById(location.hash.slice(1))?.querySelector("details")?.setAttribute("open", "");
}
addEventListener("hashchange", unfold);
unfold();
