/** Keeps a sidecar's page as on the server, by events or by asking. Only parts that differ are replaced; what is typed stays. */
export const liveScript = `
const note = document.getElementById('connection');
let [isAsking, asksAgain] = [false, false];
for (const part of document.querySelectorAll('[data-live]')) part.served = part.innerHTML;
async function refresh() {
  if (isAsking) return void (asksAgain = true);
  isAsking = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: 'text/html' }, signal: AbortSignal.timeout(10000) });
    if (answer.status === 401) return location.reload();
    if (!answer.ok) throw new Error();
    putInPlace(new DOMParser().parseFromString(await answer.text(), 'text/html'));
    note.hidden = true;
  } catch {
    note.hidden = false;
  } finally {
    isAsking = false;
    if (asksAgain) [asksAgain] = [false, refresh()];
  }
}
function putInPlace(page) {
  const focused = document.activeElement?.id;
  const typed = new Map([...document.querySelectorAll('#filters input, #filters select')].map(({ id, value }) => [id, value]));
  document.title = page.title;
  for (const part of page.querySelectorAll('[data-live]')) {
    const old = document.getElementById(part.id);
    if (!old || old.served === part.innerHTML) continue;
    old.innerHTML = part.innerHTML;
    old.served = part.innerHTML;
  }
  for (const [id, value] of typed) {
    const field = document.getElementById(id);
    if (field) field.value = value;
  }
  filterRows();
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus();
}
if (note) {
  const source = new EventSource('api/v1/events');
  source.addEventListener('state', refresh);
  source.addEventListener('error', refresh);
  setInterval(() => source.readyState !== EventSource.OPEN && refresh(), 5000);
}
`;
