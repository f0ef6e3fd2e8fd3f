// Before the first paint, so that a page in the dark never flashes.
try {
  const chosen = localStorage.getItem('ringfence.theme')
  if (chosen === 'dark' || chosen === 'light') document.documentElement.dataset.theme = chosen
} catch {
  // Storage may be refused: then the system decides.
}
