// What is wider than its column can be scrolled by the keyboard: it takes the focus, and has a name of its own.
const wide = ".md-typeset__scrollwrap, .md-typeset pre > code, .md-typeset p:has(> img)"
const reach = () => {
  let tables = 0
  for (const each of document.querySelectorAll(wide)) {
    const table = each.matches(".md-typeset__scrollwrap")
    tables += table
    if (each.scrollWidth > each.clientWidth) {
      each.tabIndex = 0
      if (table) {
        each.setAttribute("role", "region")
        each.setAttribute("aria-label", `Table ${tables}, wider than the page`)
      }
    }
  }
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search")
  // After the theme has put tables into their frames.
  requestAnimationFrame(() => requestAnimationFrame(reach))
  addEventListener("resize", reach)
  // A picture is as wide as it is when it has come.
  addEventListener("load", reach)
})
