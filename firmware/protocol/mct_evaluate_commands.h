/* SPDX-License-Identifier: Apache-2.0 */
/* The device judges its output, of samples with one label. mct_protocol.c includes it where a program has it. */
#ifndef MCT_EVALUATE_COMMANDS_H
#define MCT_EVALUATE_COMMANDS_H

#define MCT_EVALUATE_COMMANDS(X) X(MCT_COMMAND_EVALUATE, mct_evaluate, false)
#define MCT_EVALUATE_FLAG 0u /* what IDENTIFY says of it */

static mct_outcome mct_evaluate(mct_protocol *p, mct_body body) {
    if (body.count != 8) {
        return mct_refuse(MCT_ANSWER_LENGTH);
    }
    const int32_t label = (int32_t)mct_get32(body.bytes);
    const uint32_t index = mct_get32(body.bytes + 4);
    const mct_answer ready = mct_ready(p);
    if (ready != MCT_ANSWER_OK) {
        return mct_refuse(ready);
    }
    if (label < 0 || label >= MCT_CLASSES) {
        return mct_refuse(MCT_ANSWER_LABEL);
    }
    if (index != 0 && index != p->evaluated) {
        return mct_refuse_at(MCT_ANSWER_POSITION, body, p->evaluated);
    }
    mct_protocol_send_working(p);
    if (index == 0) {
        p->evaluated = 0;
        p->correct = 0;
    }
    mct_run_inference(p);
    p->evaluated++;
    p->correct += p->prediction == label;
    mct_put32(body.bytes, (uint32_t)p->prediction);
    mct_put32(body.bytes + 4, p->evaluated);
    mct_put32(body.bytes + 8, p->correct);
    mct_put64(body.bytes + 12, p->infer_cycles);
    return mct_done(20);
}

#endif
