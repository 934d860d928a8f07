// What receivers did with a message whose sender asked for receipts: how many have it, how many
// have applied it, who, and what came too late.

import { appPath, request, segment } from "/api.js";
import { button, count, counted, element, table, time } from "/elements.js";

/** The words about one receiver. */
function state(one, reply) {
  if (one.isWithdrawn) return "taken back before it was delivered";
  if (one.isApplied) return "applied";
  if (one.isDelivered) return reply.isRecalled ? "delivered; the recall was late" : "delivered";
  if (one.isDelivered === false) return reply.isExpired ? "not delivered; too late now" : "waits";
  return "counted only";
}

/** The lines above the receivers. */
function summary(reply) {
  const of = `of ${count(reply.receiverCount)}`;
  const lines = [["Sent by", reply.from], ["Sent", time(reply.unixMilliseconds)]];
  if (reply.groupid != null) lines.push(["Group", reply.groupid]);
  if (reply.mid != null) lines.push(["Its sender's id", reply.mid]);
  if (reply.receipts.includes("delivered")) {
    lines.push(["Delivered", `${count(reply.deliveredCount)} ${of}`]);
  }
  if (reply.receipts.includes("applied")) {
    const failed = reply.failedCount ? `, ${count(reply.failedCount)} of these failed` : "";
    lines.push(["Applied", `${count(reply.appliedCount)} ${of}${failed}`]);
  }
  if (reply.isRecalled) {
    lines.push(["Recalled", `${counted(reply.withdrawnCount, "receiver")} never get it, `
      + `${count(reply.lateCount)} too late`]);
  }
  if (reply.expiresUnixSeconds != null) {
    lines.push([reply.isExpired ? "Expired" : "Expires", time(reply.expiresUnixSeconds * 1000)]);
  }
  return element("dl", {}, lines.flatMap(([name, value]) =>
    [element("dt", {}, name), element("dd", {}, value)]));
}

/** Fills an element with a page of the receivers of a message. */
export async function showReceipts(place, reference, after) {
  const reply = await request("GET", `${appPath()}/receipts/${segment(reference)}`,
    { query: { after, limit: 100 } });
  place.replaceChildren(element("h2", {}, `Receipts of ${reference}`), summary(reply),
    table("Receivers", ["Receiver", "State"],
      reply.receivers.map((one) => [one.user, state(one, reply)]), "No receivers on this page."));
  if (reply.next != null) {
    place.append(button("More receivers", () => showReceipts(place, reference, reply.next)));
  }
}
