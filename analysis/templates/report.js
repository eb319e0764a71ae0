"use strict";
const table = document.getElementById("claims-table");
if (table) {
  const chapters = [...table.tBodies].map((body) => {
    const [heading, ...rows] = body.rows;
    return { body, heading, rows };
  });
  const rows = chapters.flatMap((chapter) => chapter.rows);
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.sort === undefined ? cell.textContent.trim() : Number(cell.dataset.sort);
  };
  const compare = (one, other) =>
    typeof one === "number" ? one - other : one.localeCompare(other, "en", { numeric: true });
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = down ? -1 : 1;
      for (const { body, rows } of chapters)
        body.append(...rows.sort((a, b) => order * compare(key(a, column), key(b, column))));
    });
  });

  const filter = document.getElementById("filter"), find = document.getElementById("find");
  const boxes = [...filter.querySelectorAll("input[type=checkbox]")];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const apply = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    for (const row of rows) {
      const fits = words.every((word) => texts.get(row).includes(word));
      row.hidden = !(fits && wanted.has(row.dataset.verdict));
    }
    for (const { heading, rows } of chapters) heading.hidden = rows.every((row) => row.hidden);
    const shown = rows.filter((row) => !row.hidden).length;
    document.getElementById("count").textContent = `${shown} of ${rows.length}`;
  };
  const reveal = () => {
    const aim = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (aim && aim.hidden) {
      find.value = "";
      boxes.forEach((box) => { box.checked = true; });
      apply();
      aim.scrollIntoView();
    }
  };
  filter.addEventListener("input", apply);
  addEventListener("hashchange", reveal);
  filter.hidden = false;
  apply();
}
for (const link of document.querySelectorAll("details.top a"))
  link.addEventListener("click", () => { link.closest("details").open = false; });
