// The effect of a command (command.h). It knows no line and no board.

#include "command.h"

#include "text.h"

void node_execute(mrt_client *client, node_record *record, const mrt_event *event)
{
    uint32_t number = text_number(event->as.delivery.body);
    record->executed++;
    record->sum += number;
    record->inbox = mrt_current_record(client);
    record->inbox.number = event->number;
    node_record_store(record);
    mrt_acknowledge(client, event->number);
    text_line text = {{0}, 0};
    text_put_number(&text, number);
    text_log("executed ", &text);
}
